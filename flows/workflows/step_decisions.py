"""Decisions of a person about a step: its approval, or the outcome of a step in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from perdure.flows.commands.in_doubt import is_before_retry, is_decision, retry_mark
from perdure.flows.core.errors import (
    FatalError,
    PerdureError,
)
from perdure.flows.core.outcomes import Finish, Interrupt
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.workflows.requests import ASKED, StepRequest


class Refused(PerdureError):
    """Raised when a person refused a step, or declared a step in doubt as failed."""

    code = "step-refused"


def answered_key(context: RoundContext) -> str | None:
    """Return the key of the question or step that a person has just answered, or None.

    An answer from before the last retry of the run does not count, because that answer led to the
    run's error.
    """
    asked = context.asked
    if not (context.answered and isinstance(asked, Mapping)) or is_before_retry(asked, context):
        return None
    if not is_decision(asked):
        key = asked.get("asks")
    else:
        about = asked.get("approval", asked.get("in_doubt"))
        key = about.get("command") if isinstance(about, Mapping) else None
    return key if isinstance(key, str) else None


def explained(question: Interrupt, step: StepRequest, context: RoundContext) -> Interrupt:
    """Return the question about a step in doubt, with the facts that a person needs.

    Other questions are returned unchanged.
    """
    if not (is_decision(question.data) and "in_doubt" in question.data):
        return question
    doubt = {**question.data["in_doubt"], "args": step.facts(ASKED), "listener": step.listener}
    return replace(question, data={"in_doubt": doubt, **retry_mark(context)})


def without_old_answer(context: RoundContext) -> RoundContext:
    """Return the context, without an answer that is not for a step or no longer counts.

    An answer to a question of the function itself (``asks``) is not for a step. An answer from
    before the last retry of the run led to the run's error, and no longer counts.
    """
    asked = context.asked
    if not context.answered or not isinstance(asked, Mapping):
        return context
    if "asks" in asked or (is_decision(asked) and is_before_retry(asked, context)):
        return altered(context, answered=False)
    return context


def accepted_result(step: StepRequest, result: Any, context: RoundContext) -> Any:
    """Return a step's result, unless a person has declared the step as failed.

    Raises:
        Refused: a person has declared the step as failed.
        FatalError: the result is ``Finish``.
    """
    if isinstance(result, Finish):
        raise FatalError(f"step {step.key} returned Finish; return a value instead")
    if not (context.answered and isinstance(context.asked, Mapping)):
        return result
    match result:
        case {"in_doubt": str(words)} if is_decision(context.asked) and "in_doubt" in context.asked:
            raise Refused(words)
    return result


def refuse(words: str, by: str | None) -> NoReturn:
    """Raise Refused with a person's ``words``. ``by`` is the person's name, if it is known."""
    raise Refused(f"{words} ({by})" if by else words)
