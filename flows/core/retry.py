"""Retry, the policy for failed rounds: how often, how long and after which errors to retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from perdure.flows.core.durations import EXPECTED, as_seconds
from perdure.flows.core.errors import InvalidFlow, InvalidInput, RetryableError
from perdure.flows.core.names import suggest

#: The longest wait and the longest ``within``: ten years, in seconds. Up to here Lua counts times
#: as exact whole numbers.
LONGEST = 10 * 365.25 * 86_400


@dataclass(frozen=True)
class Retry:
    """A retry policy. A less specific policy completes its missing settings (None).

    The order is command, node, flow, worker. Durations are seconds, a ``timedelta`` or a text like
    ``90s``, ``10m``, ``24h`` (``perdure.flows.core.durations``). They are stored as seconds.

    Attributes:
        max_attempts: attempts of a round, the first included. Waits for a busy provider are not
            counted.
        initial: the wait after the first failure.
        maximum: the longest wait.
        multiplier: the factor by which the wait grows with each failure.
        jitter: the random share of each wait, 0 to 1.
        within: how long a step is retried, counted from its first failure.
        on: only these errors, and RetryableError, are retried: exception classes or their names.
            Empty: all errors except FatalError.
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
        """Convert durations to seconds, and exception classes to names.

        Raises:
            InvalidFlow: a setting is not valid. The message names it.
        """
        if self.max_attempts is not None and (
            type(self.max_attempts) is not int or self.max_attempts < 1
        ):
            raise InvalidFlow(
                f"Retry: max_attempts is {self.max_attempts!r}; "
                "expected a whole number of at least 1"
            )
        for name in ("initial", "maximum", "within"):
            object.__setattr__(self, name, _seconds(getattr(self, name), name))
        if self.multiplier is not None and not (
            _is_number(self.multiplier) and 1 <= self.multiplier <= 1000
        ):
            raise InvalidFlow(
                f"Retry: multiplier is {self.multiplier!r}; expected a number from 1 to 1000"
            )
        if self.jitter is not None and not (_is_number(self.jitter) and 0 <= self.jitter <= 1):
            raise InvalidFlow(f"Retry: jitter is {self.jitter!r}; expected a number from 0 to 1")
        for name in ("on", "not_on"):
            object.__setattr__(self, name, _names(getattr(self, name), name))

    @property
    def patience(self) -> float | None:
        """The seconds for which a failed step is retried (``within``). None for no limit."""
        return self.within  # type: ignore[return-value]

    def over(self, less: Retry | None) -> Retry:
        """Return this policy, completed by a less specific one. None completes nothing."""
        if less is None:
            return self
        return Retry(
            **{
                each.name: _first(getattr(self, each.name), getattr(less, each.name))
                for each in fields(self)
            }
        )

    def tightened(self, by: Retry | None) -> Retry:
        """Return this policy with the stricter limits of two policies. None tightens nothing.

        The errors in ``not_on`` of both policies are not retried. The waits between attempts stay
        those of this policy.
        """
        if by is None:
            return self
        attempts = min(
            (each for each in (self.max_attempts, by.max_attempts) if each is not None),
            default=None,
        )
        within = min(
            (each for each in (self.patience, by.patience) if each is not None), default=None
        )
        return replace(
            self, max_attempts=attempts, within=within, not_on=(*self.not_on, *by.not_on)
        )

    def retries(self, error: BaseException) -> bool:
        """Return whether ``on`` and ``not_on`` allow a retry after ``error``."""
        is_named = not self.on or isinstance(error, RetryableError) or self.names(self.on, error)
        return is_named and not self.names(self.not_on, error)

    @staticmethod
    def names(listed: Sequence[Any], error: BaseException) -> bool:
        """Return whether a list names the class of ``error`` or one of its base classes."""
        own = {
            name
            for each in type(error).__mro__
            for name in (each.__name__, f"{each.__module__}.{each.__qualname__}")
        }
        return not own.isdisjoint(listed)

    def to_data(self) -> dict[str, Any]:
        """Return the policy's own settings as JSON data."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
            if value not in (None, ())
        }


def retry_of(value: Any, what: str) -> Retry | None:
    """Convert a ``retry`` setting to a retry policy.

    Args:
        value: a ``Retry``, a mapping of its settings, or None.
        what: the owner of the setting, for the error.

    Returns:
        None if ``value`` is None.

    Raises:
        InvalidFlow: the value is none of these, or one of its settings is unknown or not valid.
    """
    if value is None or isinstance(value, Retry):
        return value
    if not isinstance(value, Mapping):
        raise InvalidFlow(
            f"{what}: retry is {value!r}; expected Retry(...), or a mapping of its settings"
        )
    settings = [each.name for each in fields(Retry)]
    for name in value:
        if name not in settings:
            raise InvalidFlow(
                f"{what}: retry has no setting {name!r}; {suggest(str(name), settings)}"
            )
    return Retry(**value)


#: The settings that a submission may add. Each can only end a run sooner.
TIGHTENING = ("max_attempts", "within", "not_on")


def tightening(bounds: Any) -> Retry | None:
    """Convert a submission's ``retry`` to a policy that tightens the flow's.

    Returns:
        None if ``bounds`` is None.

    Raises:
        InvalidInput: the bounds are not valid, or have a setting that is not in ``TIGHTENING``.
    """
    if bounds is None:
        return None
    try:
        policy = retry_of(bounds, "retry")
        assert policy is not None
        loose = [name for name in policy.to_data() if name not in TIGHTENING]
    except InvalidFlow as error:
        raise InvalidInput(str(error)) from error
    if loose:
        raise InvalidInput(
            f"retry: a submission cannot set {', '.join(loose)}; it may only tighten: "
            f"{', '.join(TIGHTENING)}"
        )
    return policy


def _first(own: Any, less: Any) -> Any:
    return less if own is None or own == () else own


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    try:
        seconds = as_seconds(value)
    except ValueError:
        seconds = None
    if not _is_number(seconds) or not 0 <= seconds <= LONGEST:
        raise InvalidFlow(f"Retry: {name} is {value!r}; expected {EXPECTED}, or a timedelta")
    return float(seconds)


def _names(errors: Any, name: str) -> tuple[str, ...]:
    if isinstance(errors, str | type) or not isinstance(errors, Sequence):
        raise InvalidFlow(
            f"Retry: {name} is {errors!r}; expected a list of exception classes or of their names"
        )
    names = [
        each.__name__ if isinstance(each, type) and issubclass(each, BaseException) else each
        for each in errors
    ]
    for each in names:
        if not isinstance(each, str) or not each:
            raise InvalidFlow(
                f"Retry: {name} holds {each!r}; expected exception classes or their names"
            )
    return tuple(names)
