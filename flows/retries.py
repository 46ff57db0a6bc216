"""Retry: how often, how long and after which errors a failed round is tried again, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from flows.definition import known
from flows.durations import EXPECTED, as_seconds
from flows.errors import InvalidFlow, InvalidInput, RetryableError

#: No wait and no patience is longer (ten years, in seconds): times stay whole numbers that Lua counts exactly.
LONGEST = 10 * 365.25 * 86_400


@dataclass(frozen=True)
class Retry:
    """A retry policy. What it leaves out (None) a less specific one says: command, node, flow, worker, in this order.

    Durations are seconds, a ``timedelta`` or a text (``flows.durations``: ``90s``, ``10m``, ``24h``). They are kept as seconds.

    Attributes:
        max_attempts: attempts of a round, the first included; waits for a busy provider are not counted.
        initial: the wait after the first failure.
        maximum: no wait is longer.
        multiplier: by which the wait grows with each failure.
        jitter: the share of each wait that is left to chance, 0 to 1.
        within: how long a step is tried again, counted from its first failure.
        on: only these errors, and RetryableError, are tried again: exception classes, or their names. Empty: all but FatalError.
        not_on: these errors end the run errored at once.
    """

    max_attempts: int | None = None
    initial: float | timedelta | str | None = None
    maximum: float | timedelta | str | None = None
    multiplier: float | None = None
    jitter: float | None = None
    within: float | timedelta | str | None = None
    on: Sequence[type[BaseException] | str] = ()
    not_on: Sequence[type[BaseException] | str] = ()

    def __post_init__(self) -> None:
        """Read durations and names; raises InvalidFlow naming the setting that will not do."""
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise InvalidFlow(f"Retry: max_attempts is {self.max_attempts!r}; expected a whole number of at least 1")
        for name in ("initial", "maximum", "within"):
            object.__setattr__(self, name, _seconds(getattr(self, name), name))
        if self.multiplier is not None and not (_is_number(self.multiplier) and 1 <= self.multiplier <= 1000):
            raise InvalidFlow(f"Retry: multiplier is {self.multiplier!r}; expected a number from 1 to 1000")
        if self.jitter is not None and not (_is_number(self.jitter) and 0 <= self.jitter <= 1):
            raise InvalidFlow(f"Retry: jitter is {self.jitter!r}; expected a number from 0 to 1")
        for name in ("on", "not_on"):
            object.__setattr__(self, name, _names(getattr(self, name), name))

    @property
    def patience(self) -> float | None:
        """``within`` in seconds."""
        return self.within  # type: ignore[return-value]

    def over(self, less: Retry | None) -> Retry:
        """This policy, completed by a less specific one."""
        if less is None:
            return self
        return Retry(**{each.name: _first(getattr(self, each.name), getattr(less, each.name)) for each in fields(self)})

    def tightened(self, by: Retry | None) -> Retry:
        """This policy with the stricter bounds of both; waits stay its own."""
        if by is None:
            return self
        attempts = min((each for each in (self.max_attempts, by.max_attempts) if each is not None), default=None)
        within = min((each for each in (self.patience, by.patience) if each is not None), default=None)
        return replace(self, max_attempts=attempts, within=within, not_on=(*self.not_on, *by.not_on))

    def retries(self, error: BaseException) -> bool:
        """Whether ``error`` is one that is tried again."""
        is_named = not self.on or isinstance(error, RetryableError) or self.names(self.on, error)
        return is_named and not self.names(self.not_on, error)

    @staticmethod
    def names(listed: Sequence[Any], error: BaseException) -> bool:
        """Whether ``error``, or a class that it is derived from, is one of ``listed``."""
        own = {name for each in type(error).__mro__ for name in (each.__name__, f"{each.__module__}.{each.__qualname__}")}
        return not own.isdisjoint(listed)

    def to_data(self) -> dict[str, Any]:
        """Return the policy as JSON data."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items() if value not in (None, ())}


def retry_of(given: Any, what: str) -> Retry | None:
    """The policy that ``given`` is: a ``Retry``, a mapping of its settings, or None; raises InvalidFlow."""
    if given is None or isinstance(given, Retry):
        return given
    if not isinstance(given, Mapping):
        raise InvalidFlow(f"{what}: retry is {given!r}; expected Retry(...), or a mapping of its settings")
    settings = [each.name for each in fields(Retry)]
    for name in given:
        if name not in settings:
            raise InvalidFlow(f"{what}: retry has no setting {name!r}; {known(str(name), settings)}")
    return Retry(**given)


#: What a submission may say: each can only end a run sooner.
TIGHTENING = ("max_attempts", "within", "not_on")


def tightening(given: Any) -> Retry | None:
    """The bounds that a submission adds to the flow's policies; raises InvalidInput."""
    if given is None:
        return None
    try:
        policy = retry_of(given, "retry")
        assert policy is not None
        loose = [name for name in policy.to_data() if name not in TIGHTENING]
    except InvalidFlow as error:
        raise InvalidInput(str(error)) from error
    if loose:
        raise InvalidInput(f"retry: {', '.join(loose)} cannot be said by a submission, which may only tighten: {', '.join(TIGHTENING)}")
    return policy


def _first(own: Any, less: Any) -> Any:
    return less if own is None or own == () else own


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _seconds(given: Any, name: str) -> float | None:
    if given is None:
        return None
    try:
        seconds = as_seconds(given)
    except ValueError:
        seconds = None
    if not _is_number(seconds) or not 0 <= seconds <= LONGEST:
        raise InvalidFlow(f"Retry: {name} is {given!r}; expected {EXPECTED}, or a timedelta")
    return float(seconds)


def _names(given: Any, name: str) -> tuple[str, ...]:
    if isinstance(given, str | type) or not isinstance(given, Sequence):
        raise InvalidFlow(f"Retry: {name} is {given!r}; expected a list of exception classes or of their names")
    found = [each.__name__ if isinstance(each, type) and issubclass(each, BaseException) else each for each in given]
    for each in found:
        if not isinstance(each, str) or not each:
            raise InvalidFlow(f"Retry: {name} holds {each!r}; expected exception classes or their names")
    return tuple(found)
