"""The requests of a workflow's function: a step, an answer of a person, or a wait."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError

from perdure.flows.commands.approval import Approval, digest_of
from perdure.flows.core.errors import BadReply, FatalError, PerdureError
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import Role
from perdure.flows.core.retry import Retry
from perdure.flows.core.summaries import safe_repr, safe_text
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.arguments import data_of, whole_digest_of_call
from perdure.flows.workflows.journal import Kind


# Each round creates the requests and entries of all finished steps again. Frozen, they would take
# twice as long to create.
@dataclass(slots=True)
class Request:
    """One request that the function waits for.

    Attributes:
        key: the request's name in the journal.
        kind: the kind of the request.
        of: the digest of the request's arguments. Empty if they are not compared.
    """

    key: str
    kind: Kind
    of: str = field(default="", kw_only=True)


@dataclass(slots=True)
class AskRequest(Request):
    """A question to a person.

    Attributes:
        expects: the type of the answer. None: any.
    """

    question: str = ""
    data: Any = None
    deadline: Any = None
    default: Any = None
    expects: TypeAdapter[Any] | None = None

    def read(self, answer: Any) -> tuple[Any, str]:
        """Validate an answer.

        Returns:
            The answer as JSON data of the expected type, and an empty text. If the answer does not
            fit: None, and a text that says what is wrong.
        """
        if self.expects is None:
            return answer, ""
        try:
            value = self.expects.validate_json(canonical(answer))
        except ValidationError as error:
            faults = (
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" if each["loc"] else each["msg"]
                for each in error.errors(include_url=False, include_input=False)
            )
            return None, safe_text("; ".join(faults), 500)
        return self.expects.dump_python(value, mode="json"), ""


@dataclass(slots=True)
class WaitRequest(Request):
    """A wait for a time, a signal or child runs.

    Attributes:
        wait: called with the round's context. It returns JSON data, or raises ``Parked``.
    """

    wait: Callable[[RoundContext], Any] = lambda context: None


@dataclass(frozen=True, slots=True)
class _NoArguments:
    """The arguments that a step still takes: none. ``StepRequest.function`` has them all."""

    wants_context: bool

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        if args:
            raise BadReply(f"the arguments of {what} cannot be changed")
        return {}

    def schema(self) -> dict[str, Any]:
        return {}


@dataclass(slots=True)
class StepRequest(Request):
    """A step, with the options of a command (``perdure.command``).

    Attributes:
        target: the step's function.
        args: the arguments of the function.
        shown: JSON that people see in place of the arguments. None: people see the arguments.
        summarize: converts the result to the form that people see. None: people see the result.
        listener: who reads a person's words about the step: ``workflow`` or ``model``.
    """

    target: Callable[..., Any] = lambda: None
    args: tuple[Any, ...] = ()
    role: Role = "executor"
    idempotent: bool = False
    retry: Retry | None = None
    timeout: float | None = None
    approval: Approval | None = None
    in_doubt: Any = "ask"
    shown: Mapping[str, Any] | None = None
    listener: str = "workflow"
    summarize: Callable[[Any], Any] | None = None
    waits: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """The step's key, which is the name of its command."""
        return self.key

    def named(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function by name, with its defaults.

        Args:
            args: an empty dict, because ``StepRequest.function`` has all arguments.
        """
        return self._bound(has_defaults=True)

    def call(self, args: Mapping[str, Any]) -> StepCall:
        """Return the call of the step, as a rule and a person see it before it is carried out.

        Args:
            args: an empty dict, because ``StepRequest.function`` has all arguments.
        """
        return StepCall(self)

    @property
    def function(self) -> Callable[..., Any]:
        """The function with its arguments."""
        return functools.partial(self.target, *self.args)

    @property
    def arguments(self) -> _NoArguments:
        """The arguments besides those in ``function``: none."""
        return _NoArguments(takes_context(self.target))

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return an empty dict, or raise BadReply if ``args`` is not empty.

        A person who approves a command can change its arguments. Those of a step cannot be changed.

        Args:
            args: empty, unless a person wants other arguments than the step's own.

        Raises:
            BadReply: ``args`` is not empty.
        """
        return self.arguments.check(args, f"step {self.key!r}") if args else {}

    def facts(self, most: int) -> dict[str, Any]:
        """Return the arguments by name, as people see them.

        An argument that is not JSON, or takes more than ``most`` characters, is a text.
        """
        if self.shown is not None:
            return dict(self.shown)
        return {name: _fact(value, most) for name, value in self._bound().items()}

    def _bound(self, has_defaults: bool = False) -> dict[str, Any]:
        """Return the arguments by name, without ``context``. Those of partials are among them."""
        function, args, named = _unwrapped(self.target, self.args)
        try:
            names, required = _names_of(function)
            least = max(required, len(names) if has_defaults else 0)
            if not named and least <= len(args) <= len(names):
                return dict(zip(names, args, strict=False))
            signature = _signature(function)
            parameters = [each for each in signature.parameters.values() if each.name != "context"]
            bound = signature.replace(parameters=parameters).bind(*args, **named)
            if has_defaults:
                bound.apply_defaults()
        except (TypeError, ValueError):  # also a function of C without a signature
            return {**({"args": list(args)} if args else {}), **named}
        found: dict[str, Any] = {}
        for each in parameters:
            if each.name in bound.arguments:
                value = bound.arguments[each.name]
                found |= value if each.kind is each.VAR_KEYWORD else {each.name: value}
        return found

    def plan(self) -> dict[str, Any]:
        """Return the time limit and the retry policy of this step. Those not set are left out."""
        told = {
            "timeout": self.timeout,
            "retry": None if self.retry is None else self.retry.to_data(),
        }
        return {name: value for name, value in told.items() if value is not None}


#: Maximum number of steps that are carried out at the same time.
TOGETHER = 16
#: Maximum characters of the JSON of a call about which a person is asked.
MOST_ASKED = 100_000
#: Maximum characters of an argument in a question of an earlier release, and in one about a doubt.
ASKED = 10_000


class NotShown(FatalError):
    """Raised when a step needs an approval, but a person could not see its whole call.

    The step is not begun.
    """


@dataclass(frozen=True, slots=True)
class StepCall:
    """The call of a step for which a rule or a person decides whether it is carried out."""

    step: StepRequest

    @property
    def name(self) -> str:
        """The step's key."""
        return self.step.key

    @property
    def named(self) -> Mapping[str, Any]:
        """The arguments of the function by name, with its defaults."""
        return self.step.named({})

    def question(self) -> dict[str, Any]:
        """Return the data of the question about the step.

        Raises:
            NotShown: an argument is no data, or the arguments are too long.
        """
        step = self.step
        args = step.shown
        if args is None:
            args = {name: self._data_of(name, value) for name, value in self.named.items()}
        lengths = {name: len(canonical(value)) for name, value in args.items()}
        if sum(lengths.values()) > MOST_ASKED:
            longest = max(lengths, key=lambda name: lengths[name])
            raise NotShown(
                f"step {step.key} needs an approval, and its argument {longest!r} takes "
                f"{lengths[longest]:,} characters; a person can be shown {MOST_ASKED:,}. Give the "
                "step shown={...} with what the person must see, or pass a reference"
            )
        return {
            "command": step.key,
            "args": dict(args),
            "digest": self.digest(),
            "listener": step.listener,
            "fixed": True,
        }

    def is_asked_in(self, question: Mapping[str, Any]) -> bool:
        """Return whether a question about this step was about this very call."""
        if question.get("digest") == digest_of(self.step.key, {}):  # An earlier release asked.
            return bool(question.get("args") == self.step.facts(ASKED))
        return bool(question.get("digest") == self.digest())

    def digest(self) -> str:
        """Return the digest of the step's function and of all its arguments."""
        return whole_digest_of_call(self.step.key, self.step.target, self.step.args)

    def _data_of(self, name: str, value: Any) -> Any:
        """Return an argument as JSON data.

        Raises:
            NotShown: the argument is no data.
        """
        with suppress(PerdureError):
            return storable(value, name)
        with suppress(Exception):  # An object of the user may raise anything.
            return data_of(value)
        raise NotShown(
            f"step {self.step.key} needs an approval, and its argument {name!r} is a "
            f"{type(value).__name__}, which a person cannot be shown as data. Pass JSON data, a "
            "dataclass or a pydantic model in its place, or give the step shown={...} with what "
            "the person must see"
        )


def _fact(value: Any, most: int) -> Any:
    try:
        plain = storable(value, "an argument")
        text = canonical(plain)
    except PerdureError:
        plain = text = safe_repr(value)
    return plain if len(text) <= most else safe_text(text, most)


#: Signatures of functions. ``inspect.signature`` takes longer than the rest of a short step.
_signatures: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()
#: The names of functions' parameters (``_names_of``).
_names: WeakKeyDictionary[Callable[..., Any], tuple[tuple[str, ...], int]] = WeakKeyDictionary()


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function.

    Raises:
        TypeError, ValueError: the function has no signature.
    """
    try:
        found = _signatures.get(function)
    except TypeError:  # An object that is called like a function, and cannot be in a dictionary.
        return inspect.signature(function)
    if found is None:
        found = _signatures[function] = inspect.signature(function)
    return found


def _names_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """Return the names of a function's parameters without ``context``, for positional arguments.

    The number of the names without a default follows. If the function has parameters of another
    kind than usual, there are no names, and the number is 1.

    Raises:
        TypeError, ValueError: the function has no signature.
    """
    try:
        found = _names.get(function)
    except TypeError:  # see ``_signature``
        return (), 1
    if found is None:
        parameters = _signature(function).parameters.values()
        given = [each for each in parameters if each.name != "context"]
        usual = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in given)
        required = sum(each.default is each.empty for each in given)
        found = (tuple(each.name for each in given), required) if usual else ((), 1)
        _names[function] = found
    return found


def _unwrapped(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the function inside partials, with all positional and named arguments of its call."""
    named: dict[str, Any] = {}
    gap = getattr(functools, "Placeholder", object())  # Python 3.14
    while isinstance(function, functools.partial):
        rest = iter(args)
        args = (*[next(rest, gap) if each is gap else each for each in function.args], *rest)
        named = {**function.keywords, **named}
        function = function.func
    return function, args, named


def takes_context(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``context``."""
    try:
        return "context" in _signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return False


def next_requests(pending: Sequence[Request]) -> list[Request]:
    """Return the requests that a round carries out next.

    Steps come first, then all questions at once, then one wait.
    """
    if len(pending) == 1:  # as most functions ask, one step after the other
        return list(pending)
    steps = [each for each in pending if isinstance(each, StepRequest)]
    if steps:
        together: list[Request] = [each for each in steps if each.role == steps[0].role]
        return together[:TOGETHER]
    if isinstance(pending[0], AskRequest):
        return [each for each in pending if isinstance(each, AskRequest)]
    return [pending[0]]
