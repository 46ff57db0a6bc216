"""Errors with which the function of a workflow ends."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.flows.core.errors import Remedy, described, leaves_of, remedy_of
from perdure.flows.workflows.base_steps import Restart
from perdure.flows.workflows.journal import StepFailed

#: Maximum number of errors of a ``TaskGroup`` that the error of the run describes.
MOST_TOLD = 5


def remedy_of_all(failures: Sequence[StepFailed], committed: Sequence[str]) -> Remedy:
    """Return the remedy of a run whose function ended because steps failed.

    Args:
        committed: the keys of failed steps that a retry does not try again.
    """
    if committed:
        return "fork"
    remedies = [remedy_of(each.__cause__) for each in failures]
    return next((each for each in remedies if each != "retry"), "retry")


def without_restarts(error: BaseException) -> BaseException:
    """Return the error of a coroutine, without the restarts of tasks of a ``TaskGroup``.

    If the tasks raised nothing but restarts, return the first ``Restart`` itself.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    restarts, others = error.split(Restart)
    if restarts is None or others is not None:
        return error if others is None else others
    return leaves_of(restarts)[0]


def description_of(error: BaseException) -> str:
    """Return the text for an error of the function. It names the errors of a ``TaskGroup``."""
    leaves = leaves_of(error)
    failed = [each.step for each in leaves if isinstance(each, StepFailed)]
    if len(failed) == len(leaves):
        more = f", and {len(failed) - 1} more: {', '.join(failed[1:])}" if failed[1:] else ""
        return f"{leaves[0]}{more}"
    words = f"the workflow raised {described(error)}"
    if isinstance(error, BaseExceptionGroup):
        words += f": {'; '.join(map(described, leaves[:MOST_TOLD]))}"
    return words


def failures_behind(error: BaseException) -> list[StepFailed]:
    """Return the failures of steps that an error consists of, or was raised after."""
    errors = [error]
    for each in errors:  # The list grows.
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for other in (*inner, each.__cause__, each.__context__):
            if other is not None and not any(other is known for known in errors):
                errors.append(other)
    return [each for each in errors if isinstance(each, StepFailed)]
