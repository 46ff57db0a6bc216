"""The errors a flow may raise, and the root of every error of Holdfast.

Two questions decide what becomes of an error: whose fault is it, and does trying again help?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.outcomes import Command, Turn


class HoldfastError(Exception):
    """Root of all errors of Holdfast.

    Its message says what was expected, what came, which run and step it concerns, and what to do.
    """


class RetryableError(HoldfastError):
    """The round failed, and trying it again later may help: a time-out, a busy service.

    Args:
        message: what failed.
        retry_after: seconds to wait before the next attempt; None leaves it to the backoff.
        counts: False where a provider is busy or away, and the round is not at fault: it waits, and no attempt is counted.
    """

    def __init__(self, message: str, retry_after: float | None = None, counts: bool = True) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.counts = counts


class OutcomeUnknown(RetryableError):
    """A command was cut off from what it had asked for, and cannot say whether it has happened.

    The round is tried again; a command that is not idempotent is in doubt then, and its policy decides (``@command(in_doubt=...)``).
    """


class FatalError(HoldfastError):
    """The round failed and no attempt can succeed: the run ends errored at once."""


class UnstorableValue(FatalError):
    """A value that would not read back equal: NaN, a set, nesting too deep, a lone surrogate."""


class RoundStopped(HoldfastError):
    """Raised inside a round by ``RoundContext.raise_if_stopped``: nobody wants its result any more."""


class InvalidFlow(HoldfastError):
    """A flow's definition or configuration contradicts itself; raised before any run uses it."""


class InvalidInput(HoldfastError):
    """A goal or inputs that the flow does not accept; raised at submission, nothing is stored."""


class BadReply(HoldfastError):
    """A controller's reply names no command that can be carried out; the controller is told, a bounded number of times.

    Args:
        message: what was wrong with the reply, and what is known.
        command: the decision as far as it could be read; None if it could not.
        others: of a reply with several calls, the turns that answer the others.
    """

    def __init__(self, message: str, command: Command | None = None, others: tuple[Turn, ...] = ()) -> None:
        super().__init__(message)
        self.command = command
        self.others = others
