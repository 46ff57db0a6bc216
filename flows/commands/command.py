"""Commands, the actions that a controller can choose.

``@command`` marks a function as a command. ``CommandSpec`` validates its arguments and runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, TypeVar, overload
from weakref import WeakKeyDictionary

from perdure.flows.commands.approval import Approval, CommandCall, approval_of
from perdure.flows.commands.execute import carry_out, check_repeatable
from perdure.flows.commands.in_doubt import policy_of
from perdure.flows.core.docstrings import read_docstring
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import Names, is_name
from perdure.flows.core.retry import Retry, retry_of
from perdure.flows.core.signature import Signature, arguments_of
from perdure.flows.core.validation import is_seconds
from perdure.flows.rounds.context import RoundContext

#: The treatment of a command's exception: an observation, or a failure of the round.
Errors = Literal["observe", "raise"]
_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__perdure_command__"

#: The plain functions marked ``@command(name=...)``, by name.
registered_commands: Names[Callable[..., Any]] = Names("command", "perdure.flows.rings.human")


@dataclass(frozen=True)
class _Options:
    idempotent: bool = False
    timeout: float | None = None
    name: str | None = None
    runs_shell: bool = False
    approval: Approval | None = None
    in_doubt: Any = None
    errors: Errors | None = None
    retry: Retry | None = None
    waits: bool = False


@overload
def command(function: _F, /) -> _F: ...
@overload
def command(
    *,
    name: str | None = None,
    idempotent: bool = False,
    timeout: float | timedelta | str | None = None,
    runs_shell: bool = False,
    approval: Any = None,
    in_doubt: Any = None,
    errors: Errors | None = None,
    retry: Retry | Mapping[str, Any] | None = None,
    waits: bool = False,
) -> Callable[[_F], _F]: ...
def command(
    function: _F | None = None,
    /,
    *,
    name: str | None = None,
    idempotent: bool = False,
    timeout: float | timedelta | str | None = None,
    runs_shell: bool = False,
    approval: Any = None,
    in_doubt: Any = None,
    errors: Errors | None = None,
    retry: Retry | Mapping[str, Any] | None = None,
    waits: bool = False,
) -> _F | Callable[[_F], _F]:
    """Mark a method of a flow, or a function, as a command.

    It stays callable as before. Its arguments are validated against the annotations; ``self`` and a
    parameter named ``context`` are not arguments. Its description is the docstring, up to the
    sections about arguments, results and errors. ``Args:`` describes each argument (also NumPy's
    ``Parameters`` and ``:param name:``), unless its annotation does (``Field(description=...)``).

    It returns JSON values, pydantic models, dataclasses, an ``Interrupt`` to ask a person, or a
    ``Finish`` to end the run.

    Args:
        name: registers a plain function under this name, for flows written in YAML. (A flow offers
            a method under the method's own name.)
        idempotent: carrying it out twice has the same effect as once. It may be retried without
            asking.
        timeout: how long a round that carries it out may take: seconds, a timedelta, or a text like
            ``10m``.
        runs_shell: it runs text written by a controller. Only flows that set ``runs_shell`` may
            offer it, and workers have to enable those flows.
        approval: whether a person approves the command first: ``"always"``, ``"never"`` (the
            default), an ``Approval``, or a function that returns whether this call needs approval.
            It gets the arguments as JSON data, converted, and with defaults filled in.
        in_doubt: the policy after a worker was lost in the middle of a command that is not
            idempotent. ``"tell_controller"`` is the default with a controller that reads errors.
            ``"ask"`` asks a person and is the default with code. ``"retry"`` carries the command
            out again under the same idempotency key. A function gets ``context``, and the
            arguments for which it has parameters. It returns the command's result, or ``NOT_DONE``
            to have the command carried out now.
        errors: the treatment of an exception: an observation (``"observe"``) or a failure of the
            round (``"raise"``). None observes if the controller reads errors, as a model does, and
            raises otherwise.
        retry: when its failed rounds are retried. The policies of node, flow and worker complete
            it. After an error named in its ``on``, even a command that is not idempotent is carried
            out again.
        waits: it may wait (``context.sleep``, ``context.wait_for``), and is carried out from its
            beginning again after each wait. An idempotent command may wait without this option.

    Raises:
        InvalidFlow: the options or the signature are not valid.
    """
    limit = _validate_timeout(timeout)
    if errors not in (None, "observe", "raise"):
        raise InvalidFlow(f"@command: errors is {errors!r}; expected 'observe' or 'raise'")
    policy = policy_of(in_doubt, idempotent)
    options = _Options(
        idempotent,
        limit,
        name,
        runs_shell,
        approval_of(approval),
        policy,
        errors,
        retry_of(retry, "@command"),
        waits,
    )

    def mark(marked: _F) -> _F:
        setattr(marked, _MARK, options)
        if name is not None:
            _register_command(marked)
        return marked

    return mark if function is None else mark(function)


def _validate_timeout(timeout: float | timedelta | str | None) -> float | None:
    """Validate the option ``@command(timeout=...)``, and return it in seconds. None stays None.

    Raises:
        InvalidFlow: the option is not a duration above 0.
    """
    try:
        seconds: float | None = as_seconds(timeout)
    except ValueError as error:
        raise InvalidFlow(f"@command: timeout: {error}") from error
    if seconds is not None and not is_seconds(seconds):
        raise InvalidFlow(
            f"@command: timeout is {timeout!r}; expected a number of seconds above 0, or None"
        )
    return seconds


def _register_command(marked: Callable[..., Any]) -> None:
    """Register a plain function marked ``@command(name=...)`` under this name.

    Raises:
        InvalidFlow: the function is a method, or another command has the name.
    """
    qualified_name = str(getattr(marked, "__qualname__", ""))
    if "." in qualified_name.rpartition("<locals>.")[2]:
        raise InvalidFlow(
            f"@command: {qualified_name} is a method, which its flow offers under "
            "its own name. name= is for plain functions"
        )
    registered_commands.keep(spec_of(marked).name, marked)


@dataclass(frozen=True)
class CommandSpec:
    """A command as a flow offers it.

    Attributes:
        name: the exact name by which a controller chooses it.
        function: a plain or coroutine function, or a bound method.
        description: the purpose of the command, for the controller.
        idempotent, timeout, runs_shell, approval, in_doubt, errors, retry, waits: see
            ``command``.
        takes: describes and validates the arguments. None reads the function's signature.
        max_concurrency: maximum concurrent calls, with ``parallel_calls`` of a
            ``ControllerExecutorFlow``. None for any number.
    """

    name: str
    function: Callable[..., Any]
    description: str = ""
    idempotent: bool = False
    timeout: float | None = None
    runs_shell: bool = False
    takes: Signature | None = None
    approval: Approval | None = None
    in_doubt: Any = None
    errors: Errors | None = None
    retry: Retry | None = None
    waits: bool = False
    max_concurrency: int | None = None

    @property
    def arguments(self) -> Signature:
        """The arguments of the command, in a form that validates them."""
        return self.takes or arguments_of(self.function)

    def is_observed(self, tells_errors: bool) -> bool:
        """Return whether the command's exceptions become observations.

        Args:
            tells_errors: the result if the command does not set ``errors``.
        """
        return tells_errors if self.errors is None else self.errors == "observe"

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments, and return them for the command's function.

        Raises:
            BadReply: the command does not accept them.
        """
        return self.arguments.check(args, f"command {self.name!r}")

    def named(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments by name, for the policy ``in_doubt`` of this command.

        Raises:
            BadReply: the command does not accept the arguments.
        """
        return self.check(args)

    def call(self, args: Mapping[str, Any]) -> CommandCall:
        """Return this command with its arguments, for the approval rule and the approving person.

        Raises:
            BadReply: the command does not accept the arguments.
        """
        complete = getattr(self.arguments, "complete", None)  # ``takes`` may be of a user.
        named = dict(args) if complete is None else complete(args, f"command {self.name!r}")
        return CommandCall(self.name, dict(args), named)

    def carry_out(self, args: Mapping[str, Any], context: RoundContext) -> Any:
        """Carry out this command: ask for approval if needed, record the intent, call its function.

        See ``perdure.flows.commands.execute.carry_out``.
        """
        return carry_out(self, args, context)

    def check_repeatable(
        self, error: BaseException, args: Mapping[str, Any], context: RoundContext
    ) -> None:
        """Raise FatalError unless an automatic retry after ``error`` is allowed.

        See ``perdure.flows.commands.execute.check_repeatable``.
        """
        check_repeatable(self, error, args, context)

    def schema(self) -> dict[str, Any]:
        """Return the command as a tool definition: ``name``, ``description`` and ``parameters``.

        Models read it. ``parameters`` is a JSON schema.
        """
        return {
            "name": self.name,
            "description": self.description or getattr(self.takes, "description", ""),
            "parameters": self.arguments.schema(),
        }

    def configured(self, overrides: Mapping[str, Any]) -> CommandSpec:
        """Return this command with options from a flow's configuration.

        Raises:
            InvalidFlow: the override contradicts the command.
        """
        if overrides.get("in_doubt") is not None:
            policy_of(overrides["in_doubt"], self.idempotent)
        if "sandbox" in overrides:
            overrides = {**overrides, **self._in_sandbox(overrides["sandbox"])}
            del overrides["sandbox"]
        return replace(self, **overrides) if overrides else self

    def _in_sandbox(self, sandbox: Any) -> dict[str, Any]:
        """Return the fields of this command that change if it runs in ``sandbox``.

        Raises:
            InvalidFlow: the command has no sandbox.
        """
        in_sandbox = getattr(self.function, "in_sandbox", None)
        if in_sandbox is None:
            raise InvalidFlow(f"command {self.name!r} has no sandbox; only run_shell has one")
        return {"function": in_sandbox(sandbox), "takes": self.arguments}


class Schemas(Sequence[dict[str, Any]]):
    """The tool definitions for a controller, made on first access.

    Few controllers read the definitions, and making them may need a request to an MCP server.

    Args:
        make: returns all definitions.
    """

    def __init__(self, make: Callable[[], Sequence[dict[str, Any]]]) -> None:
        self._make = make

    @cached_property
    def _all(self) -> Sequence[dict[str, Any]]:
        return self._make()

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        return self._all[index]


def spec_of(
    offered: CommandSpec | Callable[..., Any], name: str | None = None, options: Any = None
) -> CommandSpec:
    """Return the ``CommandSpec`` of a function or bound method.

    Args:
        offered: the function. A ``CommandSpec`` is returned unchanged, and the other arguments are
            ignored.
        name: the command's name. None: the name in the options, or the function's own name.
        options: the options of ``@command``. None: the options with which the function is marked.

    Raises:
        InvalidFlow: ``offered`` cannot be a command.
    """
    if isinstance(offered, CommandSpec):
        return offered
    if not callable(offered):
        raise InvalidFlow(f"{offered!r} is not a command; expected a function or a CommandSpec")
    chosen = options or getattr(offered, _MARK, _Options())
    named = name or chosen.name or str(getattr(offered, "__name__", type(offered).__name__))
    if not is_name(named):
        raise InvalidFlow(
            f"{named!r} cannot name a command; expected letters, digits, '_', '.' or '-'; "
            "give the function a name"
        )
    arguments_of(offered)
    return CommandSpec(
        named,
        offered,
        read_docstring(inspect.getdoc(offered) or "").description,
        chosen.idempotent,
        chosen.timeout,
        chosen.runs_shell,
        approval=chosen.approval,
        in_doubt=chosen.in_doubt,
        errors=chosen.errors,
        retry=chosen.retry,
        waits=chosen.waits,
    )


def parts_of(commands: Iterable[CommandSpec]) -> list[Any]:
    """Return the parts of commands that may lack dependencies: ``takes`` and ``function``."""
    return [part for spec in commands for part in (spec.takes, spec.function)]


def lacks_of(parts: Iterable[Any]) -> str | None:
    """Return a sentence about the first missing dependency. None if nothing is missing.

    Args:
        parts: objects that may have an attribute ``missing``: a sentence, or None.
    """
    return next((lacks for part in parts if (lacks := getattr(part, "missing", None))), None)


#: The marked attributes of each class, in order. Each round makes a new flow object, but the class
#: is searched only once.
_marks_by_class: WeakKeyDictionary[type, dict[str, _Options]] = WeakKeyDictionary()


def _marked(cls: type) -> dict[str, _Options]:
    if cls in _marks_by_class:
        return _marks_by_class[cls]
    marked: dict[str, _Options] = {}
    for owner in reversed(cls.__mro__):
        for attribute, value in vars(owner).items():
            options = getattr(value, _MARK, None) or getattr(
                getattr(value, "__func__", None), _MARK, None
            )
            if isinstance(options, _Options):
                marked[attribute] = options
    _marks_by_class[cls] = marked
    return marked


def commands_of(
    flow: object, offered: Iterable[CommandSpec | Callable[..., Any]] = ()
) -> dict[str, CommandSpec]:
    """Return all commands of a flow for its controller, by name.

    First its methods marked ``@command``, in order, then those ``offered``. A subclass may override
    a command without marking it again, or remove it by setting it to None.

    Raises:
        InvalidFlow: two commands have the same name, or one cannot be a command.
    """
    methods = [
        (name, getattr(flow, name), options) for name, options in _marked(type(flow)).items()
    ]
    specs = [
        spec_of(method, name, options) for name, method, options in methods if method is not None
    ]
    specs_by_name: dict[str, CommandSpec] = {}
    for spec in [*specs, *(spec_of(each) for each in offered)]:
        if spec.name in specs_by_name:
            raise InvalidFlow(f"two commands are named {spec.name!r}; names must differ")
        specs_by_name[spec.name] = spec
    return specs_by_name
