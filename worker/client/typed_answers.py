"""The answer of a run as a typed value. The type comes from the run's flow or from the caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from perdure.flows.core.answer_types import AnswerType
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.rounds import registry
from perdure.worker.domain.remedy import command_of
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.errors import InvalidInput, InvalidSettings, RunFailed


def answer_of(run: Run, as_type: Any, find_flows: Callable[[], None]) -> Any:
    """Return the answer of an ended run as a typed value.

    Args:
        as_type: the type. None: the type of the run's flow. If this process does not know the flow,
            or if the flow has no type, the answer is returned as JSON data.
        find_flows: registers the flows of this process. Called only if ``as_type`` is None.

    Raises:
        RunFailed: the run has no answer, because it ended errored, stopped or unfinished.
        InvalidAnswer: the answer does not fit the type.
        InvalidInput: ``as_type`` is no type that pydantic can read.
    """
    if not run.finished:
        raise RunFailed(_why(run), run)
    answers = _flows_type(run.flow, find_flows) if as_type is None else _type_of(as_type)
    return run.answer if answers is None else answers.read(run.answer, f"run {run.id}: ")


def _flows_type(name: str, find_flows: Callable[[], None]) -> AnswerType | None:
    try:
        find_flows()
        return registry.make(name).answer_type()
    except (InvalidFlow, InvalidSettings):
        return None


def _type_of(kind: Any) -> AnswerType:
    try:
        try:
            return _cached_type(kind)
        except TypeError:  # It has no hash.
            return AnswerType(kind, "as_type")
    except InvalidFlow as error:
        raise InvalidInput(str(error)) from error


@cache
def _cached_type(kind: Any) -> AnswerType:
    return AnswerType(kind, "as_type")


def _why(run: Run) -> str:
    """Return an error text: why a run has no answer, and the command that helps."""
    match run.status:
        case RunStatus.ERRORED:
            return (
                f"run {run.id} errored at step {run.state.step}: {run.error}. "
                f"To try again: perdure {command_of(run.id, run.details.get('remedy'))}"
            )
        case RunStatus.STOPPED:
            by = run.details.get("stop_by")
            reason = run.details.get("stop_reason")
            told = f"{f' by {by}' if by else ''}{f': {reason}' if reason else ''}"
            return (
                f"run {run.id} was stopped at step {run.state.step}{told}. "
                f"To continue it: perdure resume {run.id}"
            )
    return (
        f"run {run.id} is {run.status_text}, so it has no answer of its own, only: "
        f"{run.answer!r:.200}. For the cause: perdure why {run.id}"
    )
