"""Decisions of a person about a step: its approval, or the outcome of a step in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from perdure.flows.commands.in_doubt import is_before_retry, retry_mark
from perdure.flows.core.errors import (
    FatalError,
    PerdureError,
)
from perdure.flows.core.outcomes import Finish, Interrupt
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.workflows.requests import StepRequest

#: Maximum characters of an argument in a question.
ASKED = 10_000


class Refused(PerdureError):
    """Raised when a person refused a step, or declared a step in doubt as failed."""

    code = "step-refused"


def answered_key(context: RoundContext) -> str | None:
    """Return the key of the question or step that a person has just answered, or None.

    An answer from before the last retry of the run does not count, since it led to the run's error.
    """
    asked = context.asked
    if not (context.answered and isinstance(asked, Mapping)) or is_before_retry(asked, context):
        return None
    if not _is_decision(asked):
        key = asked.get("asks")
    else:
        about = asked.get("approval", asked.get("in_doubt"))
        key = about.get("command") if isinstance(about, Mapping) else None
    return key if isinstance(key, str) else None


def _is_decision(data: Any) -> bool:
    """Return whether a question is about a step: its approval, or its unknown outcome.

    The data of a question that the function itself asks (``asks``) may contain ``approval``, too.
    """
    if not isinstance(data, Mapping) or "asks" in data:
        return False
    return "approval" in data or "in_doubt" in data


def explained(question: Interrupt, step: StepRequest, context: RoundContext) -> Interrupt:
    """Return the question about a step, with the facts that a person needs for the decision."""
    if not _is_decision(question.data):
        return question
    [kind] = question.data
    facts = {**question.data[kind], "args": step.facts(ASKED), "listener": step.listener}
    if kind == "approval":
        facts["fixed"] = True
    return replace(question, data={kind: facts, **retry_mark(context)})


def with_valid_decision(context: RoundContext, step: StepRequest) -> RoundContext:
    """Return the context without decisions that no longer count.

    A decision from before the last retry of the run does not count, since it led to the run's
    error. An approval counts only for the arguments that the person saw.
    """
    asked = context.asked
    if not context.answered or not isinstance(asked, Mapping):
        return context
    if "asks" in asked:
        return altered(context, answered=False)  # The function itself has asked, no step.
    if not _is_decision(asked):
        return context
    if is_before_retry(asked, context):
        return altered(context, answered=False)
    approval = asked.get("approval")
    if not (isinstance(approval, Mapping) and approval.get("command") == step.key):
        return context
    if approval.get("args") == step.facts(ASKED):
        return context
    return altered(context, asked={**asked, "approval": {**approval, "digest": "other arguments"}})


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
        case {"in_doubt": str(words)} if (
            _is_decision(context.asked) and "in_doubt" in context.asked
        ):
            raise Refused(words)
    return result


def refuse(words: str, by: str | None) -> NoReturn:
    """Raise Refused with a person's ``words``. ``by`` is the person's name, if it is known."""
    raise Refused(f"{words} ({by})" if by else words)
