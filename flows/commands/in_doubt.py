"""The policies for commands in doubt: commands with an unknown outcome.

A worker was lost between the stored intent of a command and the commit of its round. So the command
may have been carried out or not.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from perdure.flows.commands.calls import call
from perdure.flows.core.errors import (
    FatalError,
    InvalidFlow,
    InvalidInput,
    RetryableError,
    RoundStopped,
    described,
)
from perdure.flows.core.json_values import storable
from perdure.flows.core.outcomes import Command, Interrupt
from perdure.flows.rounds.context import RoundContext, altered

POLICIES = ("retry", "ask", "tell_controller")
EXPECTED = '"retry", {"result": its result} or {"tell": "what is known of it"}'
UNKNOWN_OUTCOME = (
    "the outcome of this command is unknown: the round that was carrying it out was cut off, "
    "so it may have happened or not. "
    "Check first; ask for it again only if it has not happened"
)


class _NotDone(Enum):
    NOT_DONE = "not done"


#: A reconciling function returns this if the command has not been carried out. The command is then
#: carried out.
NOT_DONE = _NotDone.NOT_DONE


#: Key in the data of a question: the retry of the run after which the question was asked.
AFTER_RETRY = "after_retry"


@dataclass(frozen=True, slots=True)
class CarryOut:
    """The decision to carry out a command in doubt. A lost worker may have done so before."""


def policy_of(policy: Any, idempotent: bool) -> Any:
    """Validate the option ``@command(in_doubt=...)``, and return it.

    Args:
        policy: the option. None: the default, which is always valid.
        idempotent: whether the command is idempotent. Such a command must not have a policy.

    Raises:
        InvalidFlow: the option is not a policy, or the command is idempotent.
    """
    if policy is None:
        return None
    if idempotent:
        raise InvalidFlow(
            f"@command: in_doubt is {policy!r}, but the command is idempotent, "
            "so it is retried; remove one of the two"
        )
    if policy in POLICIES or callable(policy):
        return policy
    raise InvalidFlow(
        f"@command: in_doubt is {policy!r}; expected one of "
        f"{', '.join(map(repr, POLICIES))}, or a function that reconciles"
    )


def settled(
    policy: Any,
    command: Command,
    function: Callable[..., Any],
    named: Mapping[str, Any],
    context: RoundContext,
) -> Any:
    """Return a policy's decision about a command in doubt.

    A lost worker may have carried the command out.

    Args:
        policy: one of ``POLICIES``, or a reconciling function. None: ``tell_controller``.
        function: the command's own function. If it is a method, the reconciling function is called
            as a method of the same object.
        named: the arguments of the command, by name. The reconciling function gets those for which
            it has a parameter.

    Returns:
        ``CarryOut`` if the command is to be carried out. An ``Interrupt`` if a person has to be
            asked. Otherwise the observation that replaces the command's result.

    Raises:
        RetryableError: the reconciling function raised an exception. But its FatalError,
            RetryableError and RoundStopped are raised unchanged.
    """
    if policy == "retry":
        return CarryOut()
    if policy == "ask":
        return _ask_person(command, context)
    if policy in (None, "tell_controller"):
        return {"in_doubt": UNKNOWN_OUTCOME, "idempotency_key": context.key_of(command)}
    outcome = _reconcile(policy, command, function, named, context)
    return CarryOut() if outcome is NOT_DONE else outcome


def read_answer(answer: Any) -> CarryOut | dict[str, Any]:
    """Parse a person's answer about a command in doubt.

    The question is whether the command has happened.

    Returns:
        ``CarryOut`` to carry the command out again. Otherwise the command's result under
            ``result``, or a text for the controller under ``in_doubt``.

    Raises:
        InvalidInput: ``answer`` does not answer this question.
    """
    match answer:
        case "retry":
            return CarryOut()
        case {"result": _} if len(answer) == 1:
            return dict(answer)
        case {"tell": str(words)} if len(answer) == 1:
            return {"in_doubt": words}
    raise InvalidInput(
        f"the answer about a command in doubt is {str(answer)[:200]!r}; expected {EXPECTED}"
    )


def retry_mark(context: RoundContext) -> dict[str, str]:
    """Return a mark of the run's last retry.

    It is for the data of a question. Empty if no person has retried the run. ``is_before_retry``
    compares the mark.
    """
    return {AFTER_RETRY: context.retried} if context.retried else {}


def is_before_retry(asked: Mapping[str, Any], context: RoundContext) -> bool:
    """Return whether a question precedes the run's last retry.

    The answer to such a question led to an error, and does not count any more.

    Args:
        asked: the data of the question.
    """
    return bool(asked.get(AFTER_RETRY, "") != context.retried)


def is_decision(asked: Any) -> bool:
    """Return whether a question was about a command: its approval, or its unknown outcome.

    Args:
        asked: the data of the question. ``asks`` in it marks a question of a workflow's function,
            which may be about an approval, too.
    """
    if not isinstance(asked, Mapping) or "asks" in asked:
        return False
    approval, doubt = asked.get("approval"), asked.get("in_doubt")
    return (isinstance(approval, Mapping) and "digest" in approval) or (
        isinstance(doubt, Mapping) and "key" in doubt
    )


def without_decision(context: RoundContext) -> RoundContext:
    """Return a command's context without a person's decision.

    An answer about an approval or a doubt does not belong to a question that the command itself
    asks. If the context has no such answer, ``context`` itself is returned.
    """
    if not (context.answered and is_decision(context.asked)):
        return context
    return altered(context, answered=False, answer=None, answered_by=None, asked=None)


def _ask_person(command: Command, context: RoundContext) -> Any:
    question = context.asked.get("in_doubt") if isinstance(context.asked, Mapping) else None
    fault = ""
    if (
        context.answered
        and isinstance(question, Mapping)
        and question.get("key") == context.key_of(command)
    ):
        try:
            answer = read_answer(context.answer)
            asked_in = question.get("attempt", context.attempt)
            # An attempt behind the answer has begun the command again, and was cut off as well.
            if isinstance(answer, CarryOut) and context.attempt > asked_in + 1:
                return _question(command, context, " (it was begun again since the last answer)")
            if isinstance(answer, dict) and "result" in answer:
                return answer["result"]
            return (
                {**answer, "by": context.answered_by}
                if isinstance(answer, dict) and context.answered_by
                else answer
            )
        except InvalidInput as error:
            fault = f" (the last answer was not valid: {error})"
    return _question(command, context, fault)


def _question(command: Command, context: RoundContext, fault: str) -> Interrupt:
    data = {
        "in_doubt": {
            "command": command.name,
            "args": dict(command.args),
            "key": context.key_of(command),
            "attempt": context.attempt,
            **context.journal.begun,
        }
    }
    return Interrupt(
        f"{command.name} was begun, and its round was cut off (a lost worker, its time limit, or a "
        f"stop): has it happened?{fault}",
        data,
    )


def _reconcile(
    policy: Callable[..., Any],
    command: Command,
    function: Callable[..., Any],
    named: Mapping[str, Any],
    context: RoundContext,
) -> Any:
    owner = getattr(function, "__self__", None)
    bound = (
        policy
        if owner is None or getattr(policy, "__self__", None) is not None
        else types.MethodType(policy, owner)
    )
    taken = _taken_by(bound, {**named, "context": without_decision(context)})
    try:
        outcome = call(bound, context, named=taken)
        return (
            outcome
            if outcome is NOT_DONE
            else storable(outcome, f"the reconciled result of command {command.name!r}")
        )
    except (RetryableError, FatalError, RoundStopped):
        raise
    except Exception as error:
        raise RetryableError(
            f"run {context.run_id}, step {context.step}: command {command.name!r} is in doubt, "
            f"and its reconciling function failed: {described(error)}"
        ) from error


def _taken_by(policy: Callable[..., Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that a reconciling function accepts.

    These are the arguments for which it has parameters. It gets all if it has ``**kwargs``, or if
    its signature cannot be read.
    """
    try:
        parameters = inspect.signature(policy).parameters
    except (TypeError, ValueError):  # A function of C without a signature.
        return named
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return named
    return {name: value for name, value in named.items() if name in parameters}
