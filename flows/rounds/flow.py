"""Flow, the base class of everything a run can execute.

The runtime uses flows through the names of this module only.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ValidationError

from perdure.flows.core.answer_types import AnswerType, type_text
from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.errors import InvalidFlow, InvalidInput
from perdure.flows.core.json_values import storable
from perdure.flows.core.names import Role, is_name, suggest
from perdure.flows.core.outcomes import End, Outcome
from perdure.flows.core.retry import Retry, retry_of
from perdure.flows.core.validation import check_limit, is_seconds
from perdure.flows.rounds.notes import NoteStore, check_note_store

if TYPE_CHECKING:
    from perdure.flows.rounds.context import RoundContext
    from perdure.flows.rounds.lifespans import Lifespan

#: Values of ``expose``: the Model Context Protocol, and OpenAI's API.
EXPOSED_TO = ("mcp", "openai")

#: The modules of the base flows. A docstring there describes the base, not the flows derived from
#: it.
SHAPES = frozenset(
    {
        "perdure.flows.rounds.flow",
        "perdure.flows.rings.circular",
        "perdure.flows.rings.branching_flow",
        "perdure.flows.rings.controller_executor",
        "perdure.flows.rings.definition",
    }
)


class Flow(ABC):
    """The definition of a run: named nodes, and the work of each node in a round.

    A flow holds no state of a run. Everything that a run knows is in its ``RoundContext``, and a
    fresh flow object plays every round. Subclass one of the shipped flows, or this class for a
    structure of your own.

    Attributes:
        name: the name under which the flow was registered.
        description: a sentence for ``perdure flows``. Default: the first paragraph of the class's
            docstring.
        max_rounds: number of cycles after which ``exhausted`` ends the run, or None for no limit.
        interrupt_before, interrupt_after: nodes at which every run of this flow pauses.
        lease_seconds: a longer lease than the worker's, for rounds that starve the heartbeat.
        round_timeout_seconds: time limit of one round.
        needs_goal: whether a submission has to name a goal. A workflow needs one if its function
            has a parameter ``goal`` without a default.
        reads_messages: whether its controller or its agent reads messages to the run (``say``).
            Other code reads them with ``context.take``.
        runs_shell: whether it runs a shell command of the submitter. Such a flow is off until a
            worker enables it.
        expose: the protocols of other clients that may start runs of this flow: ``mcp`` and
            ``openai``. Default: none.
        retry: when failed rounds are retried. The worker's settings complete it.
        on_misfit: the fate of a live run that a change of the flow's code no longer fits: ``wait``
            (for a worker whose code fits) or ``end``.
        keep_turns: number of the newest turns that a run's history keeps, or None for all.
        keep_events: number of the newest events that a run keeps, or None for all. The state server
            trims them in blocks, so it may have about a hundred more.
        record_values: whether the event of a round has the named values that the round changed, so
            that the run can be forked at that step.
        budgets: spending limits of each run, unless its submission sets others. See
            ``perdure.flows.core.budgets``.
        Inputs: pydantic model of the inputs, or None to accept any inputs.
        Answer: type of the answer: a pydantic model, a dataclass, a TypedDict, or any type that
            pydantic can read. None accepts any JSON value.
        lifespan: opens the value of ``context.deps`` in each worker process. See
            ``perdure.lifespan``.
        note_store: keeps the notes of its runs: a ``NoteStore``, or a lifespan that yields one.
            None keeps them on the state server. See ``RoundContext.notes``.
    """

    name: str = ""
    description: str = ""
    max_rounds: int | None = None
    interrupt_before: Sequence[str] = ()
    interrupt_after: Sequence[str] = ()
    lease_seconds: float | None = None
    round_timeout_seconds: float | None = None
    needs_goal: bool = True
    reads_messages: bool = False
    runs_shell: bool = False
    expose: Sequence[str] = ()
    keep_turns: int | None = None
    keep_events: int | None = None
    record_values: bool = True
    budgets: Mapping[str, float] = MappingProxyType({})
    retry: Retry | None = None
    on_misfit: Literal["wait", "end"] = "wait"
    lifespan: Lifespan[Any] | None = None
    note_store: NoteStore | Lifespan[Any] | None = None
    Inputs: ClassVar[type[BaseModel] | None] = None
    Answer: ClassVar[Any] = None
    _answers: ClassVar[AnswerType | None] = None
    _passed: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Set ``description`` of a new flow class from its docstring.

        The description is the first paragraph. A class that sets ``description`` keeps its own.
        Without a docstring, the class inherits the description of its base. But if that base is in
        a module of ``SHAPES``, the description becomes empty, because it describes the base only.
        """
        super().__init_subclass__(**options)
        if "description" in cls.__dict__ or cls.__module__ in SHAPES:
            return
        paragraph = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("\n\n")[0]
        inherited = next(base for base in cls.__mro__[1:] if "description" in base.__dict__)
        if paragraph:
            cls.description = " ".join(paragraph.split())
        elif inherited.__module__ in SHAPES:
            cls.description = ""

    @property
    @abstractmethod
    def nodes(self) -> Mapping[str, Role]:
        """The role of each node, by name. A run starts at the first node."""

    @abstractmethod
    def play(self, node: str, context: RoundContext) -> Outcome:
        """Play one round of a node, and return its outcome.

        Raises:
            RetryableError: the round is retried later.
            FatalError: the run ends errored.
            RoundStopped: the round noticed that its result is not wanted.
            Exception: any other error is retried, as the retry policy says.
        """

    @property
    def missing(self) -> str | None:
        """The reason why this process cannot play the flow, as a sentence. None if it can.

        A flow that lacks a dependency here can still be read, listed and submitted. Only workers
        that have everything take its rounds.
        """
        return None

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the ``End`` of a run that has reached its limit of cycles.

        By default, the output of the ``End`` is ``values``, with ``status`` set to ``unfinished``.

        Args:
            values: the run's values after the last cycle.
        """
        return End(output={**values, "status": "unfinished"})

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """Return the time limit of a node's next round in seconds. None for no limit.

        The limit may depend on the committed ``values``.
        """
        return self.round_timeout_seconds

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return the retry policy of ``node``. None stands for the policy of the worker's settings.

        The policy may depend on the committed ``values``.
        """
        return self.retry

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        """Return an estimate of an attempt's spending, by budget: rather too high than too low.

        The run is charged the estimate for attempts whose worker was lost. It must depend on
        committed data only, so that every attempt of the round gets the same estimate.
        """
        return {}

    def prompt_for(
        self, node: str, context: RoundContext, tools: bool = True
    ) -> Mapping[str, Any] | None:
        """Return the model request of a node's round, as JSON data for people.

        Args:
            tools: whether the model can call tools.

        Returns:
            ``messages``, ``tools`` and their ``digest``, or None if the node asks no model.
        """
        return None

    @classmethod
    def is_checked(cls) -> bool:
        """Return whether this very flow class was checked and is valid.

        A check of a base class does not count.
        """
        return cls.__dict__.get("_passed", False) is True

    @classmethod
    def mark_checked(cls) -> None:
        """Record that this very flow class was checked and is valid.

        A fresh object plays every round, so the check is not repeated for each object.
        """
        cls._passed = True

    def check_definition(self) -> None:
        """Raise InvalidFlow if a setting or a node of this flow is not valid.

        The registry calls this. If ``retry`` is a mapping, it is replaced by a ``Retry``.
        """
        # A flow that is not registered yet has the name of its base.
        own_name = type(self).__dict__.get("name") or type(self).__name__
        policy = retry_of(self.retry, own_name)
        if policy is not self.retry:
            # Later objects of the class are not checked again.
            classes = (each for each in type(self).__mro__ if "retry" in vars(each))
            owner: Any = self if "retry" in vars(self) else next(classes)
            owner.retry = policy
        check_nodes(self)
        check_limits(self)
        check_exposure(self)
        if self.Inputs is not None and not _is_model(self.Inputs):
            raise InvalidFlow(
                f"{own_name}: Inputs is {self.Inputs!r}; "
                "expected a pydantic model: class Inputs(BaseModel)"
            )
        self.answer_type()
        if self.lifespan is not None and not callable(getattr(self.lifespan, "open", None)):
            raise InvalidFlow(
                f"{own_name}: lifespan is {self.lifespan!r}; expected what @lifespan makes of a "
                "function"
            )
        check_note_store(self.note_store, own_name)

    @classmethod
    def answer_type(cls) -> AnswerType | None:
        """Return the type of this flow's answers. None if an answer may be any JSON value.

        Raises:
            InvalidFlow: ``Answer`` is not a type that pydantic can read.
        """
        if cls.Answer is None:
            return None
        answers = cls.__dict__.get("_answers")
        if answers is None:
            # Made once for each class, because it takes longer than a round.
            name = cls.__dict__.get("name") or cls.__name__
            answers = cls._answers = AnswerType(cls.Answer, f"{name}: Answer")
        return answers

    def check_answer(self, answer: Any, where: str = "") -> Any:
        """Return an answer of this flow as JSON data.

        Args:
            where: the run and the step, for the error text.

        Raises:
            InvalidAnswer: the answer does not fit ``Answer``.
            UnstorableValue: the answer is not JSON.
        """
        answers = self.answer_type()
        if answers is None:
            return storable(answer, "the answer")
        return answers.check(answer, f"{where}{title(self)}: ")

    @property
    def command_names(self) -> Sequence[str]:
        """The commands for which runs can have a budget ``commands.NAME``."""
        return ()

    @property
    def allowed_models(self) -> Sequence[str]:
        """The models that a submission can choose from."""
        return ()

    @property
    def fork_nodes(self) -> Sequence[str]:
        """The nodes at which a fork can begin (``Client.fork``). By default none.

        Such a node needs nothing of the run but its inputs, its history and its named values.
        """
        return ()

    @property
    def own_values(self) -> Sequence[str]:
        """The names of the values that the flow itself writes. A fork does not copy them."""
        return ()

    @property
    def first_node(self) -> str:
        """The node at which a run of this flow starts."""
        return next(iter(self.nodes))

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the inputs of a run, and fill in the defaults.

        Returns:
            The inputs as plain JSON, with defaults filled in.

        Raises:
            InvalidInput: naming each input that is missing, unknown or wrong.
        """
        if self.Inputs is None:
            return dict(storable(dict(inputs), "the inputs"))
        faults, cause, accepted = [], None, dict(inputs)
        if self.Inputs.model_config.get("extra") != "allow":
            unknown = sorted(set(inputs) - set(self.Inputs.model_fields))
            if unknown:
                faults.append(f"has no input named {', '.join(unknown)}")
            for name in unknown:
                del accepted[name]
        try:
            checked = self.Inputs.model_validate(accepted)
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(str(part) for part in fault['loc']) or 'inputs'}: {fault['msg']}"
                for fault in error.errors()
            )
            faults.append(f"does not accept these inputs: {wrong}")
            cause = error
        if faults:
            raise InvalidInput(
                f"flow {self.name!r} {', and '.join(faults)}. It expects: {_described(self.Inputs)}"
            ) from cause
        return dict(storable(checked.model_dump(), "the inputs"))


def check_nodes(flow: Flow) -> None:
    """Raise InvalidFlow if a flow has no nodes, or if a node's name or role is not valid.

    Raise it also if ``interrupt_before`` or ``interrupt_after`` is not a list of these nodes.
    """
    what = title(flow)
    if not flow.nodes:
        raise InvalidFlow(f"{what} has no nodes; it needs at least one")
    for node, role in flow.nodes.items():
        if not is_name(node):
            raise InvalidFlow(
                f"{what} has a node named {node!r}; "
                "expected letters, digits, '_', '.' or '-', at most 100"
            )
        if role not in ("controller", "executor"):
            raise InvalidFlow(
                f"{what}: node {node} has the role {role!r}; expected 'controller' or 'executor'"
            )
    for setting in ("interrupt_before", "interrupt_after"):
        node_names = getattr(flow, setting)
        if isinstance(node_names, str):
            raise InvalidFlow(
                f"{what}: {setting} is the text {node_names!r}; expected a list of node names"
            )
        for node in node_names:
            if node not in flow.nodes:
                raise InvalidFlow(
                    f"{what}: {setting} names the unknown node {node!r}; "
                    f"{suggest(node, flow.nodes)}"
                )


def check_limits(flow: Flow) -> None:
    """Raise InvalidFlow if a limit, a budget or ``on_misfit`` of a flow is not valid.

    The limits are ``max_rounds``, ``keep_turns``, ``keep_events``, ``lease_seconds`` and
    ``round_timeout_seconds``.
    """
    what = title(flow)
    for setting in ("max_rounds", "keep_turns", "keep_events"):
        check_limit(getattr(flow, setting), f"{what}: {setting}")
    for setting in ("lease_seconds", "round_timeout_seconds"):
        value = getattr(flow, setting)
        if value is not None and not is_seconds(value):
            raise InvalidFlow(
                f"{what}: {setting} is {value!r}; expected a number of seconds above 0, or None"
            )
    if flow.on_misfit not in ("wait", "end"):
        raise InvalidFlow(f"{what}: on_misfit is {flow.on_misfit!r}; expected 'wait' or 'end'")
    try:
        check_budgets(flow.budgets, f"{what}: budgets")
    except InvalidInput as error:
        raise InvalidFlow(str(error)) from error


def check_exposure(flow: Flow) -> None:
    """Raise InvalidFlow if ``expose`` is not a list of names from ``EXPOSED_TO``."""
    for protocol in [flow.expose] if isinstance(flow.expose, str) else flow.expose:
        if isinstance(flow.expose, str) or protocol not in EXPOSED_TO:
            raise InvalidFlow(
                f"{title(flow)}: expose is {flow.expose!r}; expected a list of: "
                f"{', '.join(EXPOSED_TO)}"
            )


def title(flow: Flow) -> str:
    """Return the words ``flow 'NAME'`` for error messages.

    NAME is the flow's own name. If neither the flow nor its class sets one, NAME is the name of the
    class.
    """
    owner = next((each for each in type(flow).__mro__ if "name" in vars(each)), Flow)
    is_own = "name" in vars(flow) or owner.__module__ not in SHAPES
    return f"flow {(is_own and flow.name) or type(flow).__name__!r}"


def _described(model: type[BaseModel]) -> str:
    """Return a model's fields with their types, for an error message."""
    fields = (
        f"{name} ({type_text(field.annotation)}{'' if field.is_required() else ', optional'})"
        for name, field in model.model_fields.items()
    )
    return ", ".join(fields) or "none"


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)
