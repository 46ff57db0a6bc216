"""Errors of flows, and the base class of all errors of Perdure.

Two questions decide how a run goes on after an error. Whose fault is it? Does a retry help?

``ends_process`` recognizes exceptions that end the whole process, as opposed to a round.
"""

from __future__ import annotations

import signal
import threading
import traceback
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

if TYPE_CHECKING:
    from perdure.flows.core.outcomes import Command, Turn


#: What continues a run that has ended with an error. ``retry`` repeats the failed step. If a retry
#: would fail in the same way, it is ``fork``, before the failed step, or ``again``, a new run.
Remedy = Literal["retry", "fork", "again"]
E = TypeVar("E", bound=BaseException)


class PerdureError(Exception):
    """The root of all errors of Perdure.

    Its message has the expectation, the actual value, the run and step, and the remedy.

    Attributes:
        code: The name of this kind of error for programs. It stays when the message changes.
        title: A short name of this kind of error.
        http_status: The status with which HTTP reports it. A class without its own is reported as
            its nearest base class that has one.
        exit_code: The exit code of a command that ends with it.
    """

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1


class RetryableError(PerdureError):
    """A failure of the round that a retry may fix: a time-out, a busy service.

    Args:
        message: the failure.
        retry_after: seconds to wait before the next attempt. None leaves it to the backoff.
        counts: False if a provider is busy or unreachable, which is not the round's fault. The
            round waits, and no attempt is counted.
    """

    code = "retryable"

    def __init__(self, message: str, retry_after: float | None = None, counts: bool = True) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.counts = counts


class OutcomeUnknown(RetryableError):
    """Raised when a command was cut off and its outcome is unknown.

    The command cannot tell whether the called service has acted. The round is retried. A command
    that is not idempotent is then in doubt, and its policy decides (``@command(in_doubt=...)``).
    """

    code = "outcome-unknown"


class FatalError(PerdureError):
    """A failure of the round that retries cannot fix. The run ends errored at once."""

    code = "fatal"


class CodeDoesNotFit(FatalError):
    """Raised when the code of a flow does not fit its run's history.

    Most often the code was changed while the run was live. The run then waits for a worker whose
    code fits. It ends errored if its flow sets ``on_misfit = "end"``, or if the same code made its
    last commit, because waiting cannot help then.

    Args:
        message: the mismatch, and the remedy.
        is_of_other_code: whether the mismatch proves that other code played an earlier round.
    """

    code = "code-does-not-fit"

    def __init__(self, message: str, is_of_other_code: bool = False) -> None:
        super().__init__(message)
        self.is_of_other_code = is_of_other_code


class UnstorableValue(FatalError):
    """Raised for a value that would not read back equal: NaN, a function, deep nesting."""

    code = "unstorable-value"
    title = "A value cannot be stored"
    http_status = 422
    exit_code = 2


class InvalidAnswer(FatalError):
    """Raised for an answer that does not fit its flow's type (``Answer``), or ``as_type``."""

    code = "invalid-answer"
    title = "The answer has another type"


class TopicTaken(FatalError):
    """Raised when a run takes a topic that another live run holds.

    A retry fails in the same way until the other run has ended or was stopped.

    Args:
        message: the topic, and the run that holds it.
        topic: the topic.
        run_id: the run that holds it.
    """

    code = "topic-taken"

    def __init__(self, message: str, topic: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.topic = topic
        self.run_id = run_id


class RoundStopped(PerdureError):
    """The end of a round whose result is unwanted.

    ``RoundContext.raise_if_stopped`` raises it inside the round.
    """

    code = "round-stopped"


class InvalidFlow(PerdureError):
    """A flow definition or configuration that contradicts itself.

    Raised before any run uses it. If a node raises it, the run ends errored at once.
    """

    code = "invalid-flow"
    exit_code = 2


class InvalidInput(PerdureError):
    """A goal or inputs not accepted by the flow.

    Raised at submission, before anything is stored.
    """

    code = "invalid-input"
    title = "Invalid input"
    http_status = 422
    exit_code = 2


class Forgotten(PerdureError, IndexError):
    """Raised when a turn that the history no longer has is requested by its number.

    The flow keeps only its newest turns (``keep_turns``), or the run was renewed (``Renew``).
    """

    code = "forgotten"


class BadReply(PerdureError):
    """A controller's reply that names no valid command.

    The controller gets the message and may correct itself, a limited number of times.

    Args:
        message: the fault of the reply, and the known names.
        command: the readable part of the decision, or None.
        others: the turns that answer the other calls of the same reply.
    """

    code = "bad-reply"

    def __init__(
        self, message: str, command: Command | None = None, others: tuple[Turn, ...] = ()
    ) -> None:
        super().__init__(message)
        self.command = command
        self.others = others


#: The exit code with which a process of Celery's pool leaves its round on SIGTERM (billiard.common:
#: the signal less 256).
TOLD_TO_END = signal.SIGTERM - 256


def with_remedy(error: E, remedy: Remedy) -> E:
    """Return the error with the remedy of a run that has ended with it."""
    error._remedy = remedy  # type: ignore[attr-defined]
    return error


def remedy_of(error: BaseException | None) -> Remedy:
    """Return the remedy of a run that has ended with this error. The default is ``retry``."""
    remedy: Remedy = getattr(error, "_remedy", "retry")
    return remedy


def text_of(error: BaseException) -> str:
    """Return the message of an exception in flow code.

    The exception may be of the user's own class. If the class raises an error while it makes the
    message, the returned text says so.
    """
    try:
        return str(error)
    except BaseException as broken:
        if ends_process(broken):
            raise
        return f"its message cannot be made ({type(broken).__name__})"


def described(error: BaseException) -> str:
    """Return the class of an exception, and its message: ``ValueError: its message``."""
    return f"{type(error).__name__}: {text_of(error)}"


def formattable(error: BaseException | None) -> BaseException | None:
    """Return an exception for ``exc_info`` of a log line. None if Python cannot format it.

    Its class may be the user's. Python's own log handlers drop the line of such an exception, or
    raise an error themselves.
    """
    try:
        if error is not None:
            traceback.format_exception(error)
    except BaseException as broken:
        if ends_process(broken):
            raise
        return None
    return error


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group and in its inner groups, or ``error`` itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves_of(each)]


class ProcessEnd(BaseException):
    """The simulated end of a process in a test. No code may catch it and continue."""


def ends_process(error: BaseException) -> bool:
    """Return whether ``error`` ends the whole process.

    True if Celery ends a worker or a child of its pool with this error, or if the error is a
    Ctrl-C. Celery raises such errors in the main thread only, so in another thread the result is
    False: there the error would end nothing and only occupy the round's slot in the pool.
    ``sys.exit`` and ``raise KeyboardInterrupt`` in a flow's code do not end a process.
    """
    if isinstance(error, ProcessEnd):
        return True
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt):
        # A worker has its own handler for Ctrl-C, so there a KeyboardInterrupt comes from a flow.
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, SystemExit) and (
        type(error) is not SystemExit or error.code == TOLD_TO_END
    )
