"""Commands: what a controller may ask for. ``@command`` marks them, a ``CommandSpec`` checks and runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, TypeVar, overload
from weakref import WeakKeyDictionary

from flows.approvals import Approval, approval_of
from flows.arguments import Takes, arguments_of
from flows.carrying_out import carry_out, check_repeatable
from flows.context import RoundContext
from flows.definition import is_name, is_seconds
from flows.doubts import policy_of
from flows.durations import as_seconds
from flows.errors import InvalidFlow
from flows.names import Names
from flows.retries import Retry, retry_of

#: What an exception of a command becomes.
Errors = Literal["observe", "raise"]
_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__holdfast_command__"

#: The plain functions marked ``@command(name=...)``.
registered_commands: Names[Callable[..., Any]] = Names("command")


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
) -> _F | Callable[[_F], _F]:
    """Mark a method of a flow, or a plain function, as a command; it stays callable as it was.

    Its arguments (``self`` and a parameter named ``context`` left out) are checked against the annotations, and
    its description is the first line of the docstring. It returns JSON values, pydantic models, dataclasses,
    an ``Interrupt`` to ask a person, or a ``Finish`` to end the run.

    Args:
        name: registers a plain function as the command of this name, for flows written in YAML. (A method is
            offered by its flow, under its own name.)
        idempotent: carrying it out twice does no more than once; it may be tried again without asking.
        timeout: seconds (or a timedelta, or a text like ``10m``) a round that carries it out may take.
        runs_shell: it runs what a controller writes; only flows that say ``runs_shell`` may offer it, and workers have to enable those.
        approval: whether a person sees the command first: ``"always"``, ``"never"`` (the default), a function of the arguments
            that says whether this call needs it, or an ``Approval``.
        in_doubt: what becomes of a command that is not idempotent when its worker was lost in the middle: ``"tell_controller"`` (the
            default with a controller that reads errors), ``"ask"`` a person (the default with code), ``"retry"`` (under the same
            idempotency key), or a function that finds out: called like the command, with ``context``, it returns what the command came
            to, or ``NOT_DONE``, and then it is carried out.
        errors: what an exception of it becomes: an observation (``"observe"``), or a failure of the round (``"raise"``). None: observed
            where the controller reads errors, as a model does, else raised.
        retry: how its failed rounds are tried again; what it leaves out the node, the flow and the worker say. After the errors that its
            ``on`` names, a command that is not idempotent is carried out again too.

    Raises:
        InvalidFlow: the options or the signature cannot be honoured.
    """
    try:
        limit = as_seconds(timeout)
    except ValueError as error:
        raise InvalidFlow(f"@command: timeout: {error}") from error
    if limit is not None and not is_seconds(limit):
        raise InvalidFlow(f"@command: timeout is {timeout!r}; expected a number of seconds above 0, or None")
    if errors not in (None, "observe", "raise"):
        raise InvalidFlow(f"@command: errors is {errors!r}; expected 'observe' or 'raise'")
    policy = policy_of(in_doubt, idempotent)
    options = _Options(idempotent, limit, name, runs_shell, approval_of(approval), policy, errors, retry_of(retry, "@command"))

    def mark(marked: _F) -> _F:
        setattr(marked, _MARK, options)
        if name is not None:
            place = str(getattr(marked, "__qualname__", ""))
            if "." in place.rpartition("<locals>.")[2]:
                raise InvalidFlow(f"@command: {place} is a method, which its flow offers under its own name; name= is for plain functions")
            registered_commands.keep(spec_of(marked).name, marked)
        return marked

    return mark if function is None else mark(function)


@dataclass(frozen=True)
class CommandSpec:
    """A command as a flow offers it.

    Attributes:
        name: what a controller calls it; exact.
        function: a plain or coroutine function, or a bound method.
        description: a sentence for the controller.
        idempotent, timeout, runs_shell, approval, in_doubt, errors, retry: see ``command``.
        takes: what it accepts; None for what the function's signature says.
    """

    name: str
    function: Callable[..., Any]
    description: str = ""
    idempotent: bool = False
    timeout: float | None = None
    runs_shell: bool = False
    takes: Takes | None = None
    approval: Approval | None = None
    in_doubt: Any = None
    errors: Errors | None = None
    retry: Retry | None = None

    @property
    def arguments(self) -> Takes:
        """What it accepts."""
        return self.takes or arguments_of(self.function)

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function gets them; raises BadReply if it does not accept them."""
        return self.arguments.check(args, f"command {self.name!r}")

    def carry_out(self, args: Mapping[str, Any], context: RoundContext) -> Any:
        """Carry it out; see ``flows.carrying_out.carry_out``."""
        return carry_out(self, args, context)

    def check_repeatable(self, error: BaseException, args: Mapping[str, Any], context: RoundContext) -> None:
        """See ``flows.carrying_out.check_repeatable``."""
        check_repeatable(self, error, args, context)

    def schema(self) -> dict[str, Any]:
        """``name``, ``description`` and ``parameters`` (a JSON schema), as models are told of tools."""
        return {"name": self.name, "description": self.description, "parameters": self.arguments.schema()}

    def configured(self, said: Mapping[str, Any]) -> CommandSpec:
        """The same command with the fields that a flow says otherwise; raises InvalidFlow where it cannot be."""
        if said.get("in_doubt") is not None:
            policy_of(said["in_doubt"], self.idempotent)
        return replace(self, **said) if said else self


class Schemas(Sequence[dict[str, Any]]):
    """What a controller may choose from, made when it is first looked at: few controllers do, and a server may have to be asked.

    Args:
        make: makes all of them.
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


def spec_of(offered: CommandSpec | Callable[..., Any], name: str | None = None, options: Any = None) -> CommandSpec:
    """The spec of a function, a bound method, or a spec itself; raises InvalidFlow if it cannot be a command."""
    if isinstance(offered, CommandSpec):
        return offered
    if not callable(offered):
        raise InvalidFlow(f"{offered!r} is no command; expected a function or a CommandSpec")
    chosen = options or getattr(offered, _MARK, _Options())
    named = name or chosen.name or str(getattr(offered, "__name__", type(offered).__name__))
    if not is_name(named):
        raise InvalidFlow(f"{named!r} cannot name a command; expected letters, digits, '_', '.' or '-'; give the function a name")
    arguments_of(offered)
    lines = (inspect.getdoc(offered) or "").strip().splitlines()
    return CommandSpec(
        named,
        offered,
        lines[0] if lines else "",
        chosen.idempotent,
        chosen.timeout,
        chosen.runs_shell,
        approval=chosen.approval,
        in_doubt=chosen.in_doubt,
        errors=chosen.errors,
        retry=chosen.retry,
    )


#: The attributes of a class that are marked, in order. A fresh flow plays every round; its class is looked through once.
_known_marks: WeakKeyDictionary[type, dict[str, _Options]] = WeakKeyDictionary()


def _marked(cls: type) -> dict[str, _Options]:
    if cls in _known_marks:
        return _known_marks[cls]
    marked: dict[str, _Options] = {}
    for owner in reversed(cls.__mro__):
        for attribute, value in vars(owner).items():
            options = getattr(value, _MARK, None) or getattr(getattr(value, "__func__", None), _MARK, None)
            if isinstance(options, _Options):
                marked[attribute] = options
    _known_marks[cls] = marked
    return marked


def commands_of(flow: object, offered: Iterable[CommandSpec | Callable[..., Any]] = ()) -> dict[str, CommandSpec]:
    """All commands of a flow by name: its methods marked ``@command``, in order, and those ``offered`` beside them.

    A subclass may override a command without marking it again, or take it away by setting it to None.
    """
    methods = [(name, getattr(flow, name), options) for name, options in _marked(type(flow)).items()]
    specs = [spec_of(method, name, options) for name, method, options in methods if method is not None]
    found: dict[str, CommandSpec] = {}
    for spec in [*specs, *(spec_of(each) for each in offered)]:
        if spec.name in found:
            raise InvalidFlow(f"two commands are named {spec.name!r}; names must differ")
        found[spec.name] = spec
    return found
