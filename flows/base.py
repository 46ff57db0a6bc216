"""Flow: what a run is made of. The engine knows flows by these names only."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ValidationError

from flows.context import RoundContext
from flows.definition import check_limits, check_nodes
from flows.errors import InvalidInput
from flows.outcomes import End, Outcome
from flows.retries import Retry, retry_of
from flows.values import storable

#: Which workers take a node's rounds: those that wait for models, or those that run tools.
Role = Literal["controller", "executor"]


#: The modules of the flows that others are made of.
SHAPES = frozenset({"flows.base", "flows.circular", "flows.branching", "flows.controller_executor"})


class Flow(ABC):
    """The definition of a run: named nodes, and what each does with a round.

    A flow holds no state of a run: everything a run knows is in its ``RoundContext``, and a fresh
    flow object plays every round. Subclass one of the shipped flows, or this for a shape of your own.

    Attributes:
        name: under which it was registered.
        description: a sentence for ``holdfast flows``; where the class says none, the first paragraph of its docstring.
        max_rounds: cycles after which ``exhausted`` ends the run; None for no limit.
        interrupt_before, interrupt_after: nodes at which every run of this flow pauses.
        lease_seconds: a longer lease than the worker's, for rounds that starve the heartbeat.
        round_timeout_seconds: time limit of one round.
        runs_shell: it runs a shell command of the submitter; such a flow is off until a worker enables it.
        retry: how failed rounds are tried again; what it leaves out the worker's settings say.
        budgets: limits of what each run may spend, unless its submission says otherwise; see ``flows.budgets``.
        Inputs: pydantic model of the inputs; None takes them as given.
    """

    name: str = ""
    description: str = ""
    max_rounds: int | None = None
    interrupt_before: Sequence[str] = ()
    interrupt_after: Sequence[str] = ()
    lease_seconds: float | None = None
    round_timeout_seconds: float | None = None
    runs_shell: bool = False
    budgets: Mapping[str, float] = MappingProxyType({})
    retry: Retry | None = None
    Inputs: ClassVar[type[BaseModel] | None] = None
    _passed: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Describe the flow by its docstring, unless it has a description; a shape's own says nothing about a flow made of it."""
        super().__init_subclass__(**options)
        if "description" in cls.__dict__ or cls.__module__ in SHAPES:
            return
        told = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("\n\n")[0]
        inherited = next(base for base in cls.__mro__[1:] if "description" in base.__dict__)
        if told:
            cls.description = " ".join(told.split())
        elif inherited.__module__ in SHAPES:
            cls.description = ""

    @property
    @abstractmethod
    def nodes(self) -> Mapping[str, Role]:
        """The nodes by name, with the role that plays each; a run starts at the first."""

    @abstractmethod
    def play(self, node: str, context: RoundContext) -> Outcome:
        """Play one round of ``node``.

        Raises:
            RetryableError: try the round again later. FatalError: end the run errored.
            RoundStopped: the round noticed that it is not wanted. Anything else is retried.
        """

    @property
    def missing(self) -> str | None:
        """What this process lacks to play it, in a sentence; None where nothing is missing.

        Such a flow can be read, listed and submitted to workers that have all; a worker that has not leaves it alone.
        """
        return None

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """What the run ends with, unfinished, when ``max_rounds`` cycles are over; ``values`` as after the last."""
        return End(output={**values, "status": "unfinished"})

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """Seconds the next round of ``node`` may take, given the committed ``values``; None for no limit."""
        return self.round_timeout_seconds

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return the retry policy of ``node``, given the committed ``values``; None for that of the worker's settings."""
        return self.retry

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        """What one attempt of this round will spend, cautiously; charged for attempts whose worker was lost.

        It follows from what is committed alone: every attempt of the round gets the same.
        """
        return {}

    @classmethod
    def is_checked(cls) -> bool:
        """Whether one of exactly this class, as the class defines it, has passed ``check_definition``."""
        return cls.__dict__.get("_passed", False) is True

    @classmethod
    def mark_checked(cls) -> None:
        """One of exactly this class has passed. A fresh object plays every round, and is not checked each time."""
        cls._passed = True

    def check_definition(self) -> None:
        """Refuse a definition that contradicts itself; called when a flow is registered. Raises InvalidFlow."""
        self.retry = retry_of(self.retry, self.name or type(self).__name__)
        check_nodes(self)
        check_limits(self)

    @property
    def first_node(self) -> str:
        """Where a run starts."""
        return next(iter(self.nodes))

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Validate and complete the inputs of a submission.

        Returns:
            The inputs as plain JSON, defaults filled in.

        Raises:
            InvalidInput: naming each input that is missing, unknown or wrong.
        """
        if self.Inputs is None:
            return dict(storable(dict(inputs), "the inputs"))
        unknown = sorted(set(inputs) - set(self.Inputs.model_fields))
        if unknown and self.Inputs.model_config.get("extra") != "allow":
            known = ", ".join(self.Inputs.model_fields)
            raise InvalidInput(f"flow {self.name!r} has no input named {', '.join(unknown)}. It expects: {known}")
        try:
            return dict(storable(self.Inputs.model_validate(dict(inputs)), "the inputs"))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(str(part) for part in fault['loc']) or 'inputs'}: {fault['msg']}" for fault in error.errors())
            expected = ", ".join(self.Inputs.model_fields)
            raise InvalidInput(f"flow {self.name!r} does not accept these inputs: {faults}. It expects: {expected}") from error
