"""Doubts: a worker was lost between a command's intent and its commit, so nobody knows whether the command has been carried out."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flows.calls import call
from flows.context import RoundContext
from flows.errors import FatalError, InvalidFlow, InvalidInput, RetryableError, RoundStopped
from flows.outcomes import Command, Interrupt
from flows.values import storable

POLICIES = ("retry", "ask", "tell_controller")
EXPECTED = '"retry", {"result": what it came to} or {"tell": "words for the controller"}'
TOLD = (
    "the outcome of this command is unknown: the worker that was carrying it out was lost, so it may have happened or not. "
    "Check first; ask for it again only if it has not happened"
)


class _NotDone(Enum):
    NOT_DONE = "not done"


#: What a reconciling function returns where the command has not been carried out: then it is, now.
NOT_DONE = _NotDone.NOT_DONE


@dataclass(frozen=True, slots=True)
class CarryOut:
    """The doubt is settled: carry the command out (again)."""


def policy_of(given: Any, idempotent: bool) -> Any:
    """What ``@command(in_doubt=...)`` stands for; raises InvalidFlow."""
    if given is None:
        return None
    if idempotent:
        raise InvalidFlow(
            f"@command: in_doubt is {given!r} of a command that is idempotent: such a one is tried again; leave one of the two out"
        )
    if given in POLICIES or callable(given):
        return given
    raise InvalidFlow(f"@command: in_doubt is {given!r}; expected one of {', '.join(map(repr, POLICIES))}, or a function that finds out")


def settled(policy: Any, command: Command, function: Callable[..., Any], named: Mapping[str, Any], context: RoundContext) -> Any:
    """What becomes of a command in doubt: ``CarryOut``, an ``Interrupt``, or the observation in its place.

    Args:
        function: the command's own; where it is a method, the function that finds out is one of the same object.
        named: the arguments as the function gets them.

    Raises:
        RetryableError: the function that finds out failed.
    """
    if policy == "retry":
        return CarryOut()
    if policy == "ask":
        return _asked(command, context)
    if policy in (None, "tell_controller"):
        return {"in_doubt": TOLD, "idempotency_key": context.key_of(command)}
    found = _found_out(policy, command, function, named, context)
    return CarryOut() if found is NOT_DONE else found


def read_answer(answer: Any) -> CarryOut | dict[str, Any]:
    """A person's answer about a command in doubt; raises InvalidInput where it is none."""
    match answer:
        case "retry":
            return CarryOut()
        case {"result": _} if len(answer) == 1:
            return dict(answer)
        case {"tell": str(words)} if len(answer) == 1:
            return {"in_doubt": words}
    raise InvalidInput(f"the answer about a command in doubt is {str(answer)[:200]!r}; expected {EXPECTED}")


def _asked(command: Command, context: RoundContext) -> Any:
    asked = context.asked.get("in_doubt") if isinstance(context.asked, Mapping) else None
    fault = ""
    if context.answered and isinstance(asked, Mapping) and asked.get("key") == context.key_of(command):
        try:
            said = read_answer(context.answer)
            if isinstance(said, dict) and "result" in said:
                return said["result"]
            return {**said, "by": context.answered_by} if isinstance(said, dict) and context.answered_by else said
        except InvalidInput as error:
            fault = f" (the last answer could not be taken: {error})"
    data = {"in_doubt": {"command": command.name, "args": dict(command.args), "key": context.key_of(command), **context.journal.begun}}
    return Interrupt(f"a worker was lost while it carried out {command.name}: has it happened?{fault}", data)


def _found_out(
    policy: Callable[..., Any], command: Command, function: Callable[..., Any], named: Mapping[str, Any], context: RoundContext
) -> Any:
    owner = getattr(function, "__self__", None)
    bound = policy if owner is None or getattr(policy, "__self__", None) is not None else types.MethodType(policy, owner)
    try:
        found = call(bound, context, named={"context": context, **named})
        return found if found is NOT_DONE else storable(found, f"what was found out about command {command.name!r}")
    except (RetryableError, FatalError, RoundStopped):
        raise
    except Exception as error:
        raise RetryableError(
            f"run {context.run_id}, step {context.step}: command {command.name!r} is in doubt, and finding out whether it has happened "
            f"failed: {type(error).__name__}: {error}"
        ) from error
