"""Execution of a command. The order is: doubt, approval, stored intent, call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol

from perdure.flows.commands.approval import (
    ApprovableCall,
    Approval,
    ApprovalRefused,
    Approved,
    decision_about,
    recorded_approval,
)
from perdure.flows.commands.calls import call
from perdure.flows.commands.in_doubt import CarryOut, settled, without_decision
from perdure.flows.core.errors import (
    FatalError,
    OutcomeUnknown,
    RetryableError,
    UnstorableValue,
    described,
)
from perdure.flows.core.files import with_references
from perdure.flows.core.genai_attributes import (
    EXECUTE_TOOL,
    MOST_CONTENT,
    OPERATION,
    TOOL,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
)
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import DEADLINE
from perdure.flows.core.outcomes import Command, Finish, Interrupt
from perdure.flows.core.retry import Retry
from perdure.flows.core.signature import Signature
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.waits import NoWaits, Parked

WAITS = (
    "command {!r} waits, and would be carried out from its beginning again after the wait. Write "
    "@command(waits=True), and put what must not happen twice into context.once"
)


class Executable(Protocol):
    """The attributes of a command that ``carry_out`` needs.

    ``CommandSpec`` and a workflow's step have them."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def approval(self) -> Approval | None: ...
    @property
    def in_doubt(self) -> Any: ...
    @property
    def retry(self) -> Retry | None: ...
    @property
    def waits(self) -> bool: ...
    @property
    def arguments(self) -> Signature: ...
    def check(self, args: Mapping[str, Any]) -> dict[str, Any]: ...
    def named(self, args: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def call(self, args: Mapping[str, Any]) -> ApprovableCall: ...


def observed_refusal(words: str, by: str | None) -> dict[str, Any]:
    """Return the observation of a refused command, for its controller.

    Args:
        words: the explanation of the refusal.
        by: the person who refused. None if not known: then the observation names no person.
    """
    return {"refused": words, **({"by": by} if by else {})}


def carry_out(
    spec: Executable,
    args: Mapping[str, Any],
    context: RoundContext,
    refused: Callable[[str, str | None], Any] = observed_refusal,
) -> Any:
    """Carry out a command: validate, ask for approval, record the intent, call the function.

    The intent of a command that is not idempotent is recorded before the call. If an earlier
    attempt of this step has recorded an intent, the command is in doubt. Then the command's policy
    (``in_doubt``) decides before anything else happens.

    Args:
        refused: called if a person refused the command, with the person's words and name. It
            returns the result of the command, or raises an exception.

    Returns:
        The result as JSON data. If a person edited the arguments, it is a mapping with ``result``
            and ``edited``. An ``Interrupt`` if a person has to be asked first, or if the function
            returned one. A ``Finish`` if the function returned one.

    Raises:
        BadReply: the arguments are wrong.
        UnstorableValue: the result is not JSON.
        Exception: whatever the function raises.
    """
    context.traced.update({OPERATION: EXECUTE_TOOL, TOOL: spec.name})
    spec.check(args)
    command = Command(spec.name, dict(args))
    key = context.key_of(command)
    intent = None if spec.idempotent else context.journal.in_doubt(key)
    begun = None
    if intent is not None:
        begun = recorded_approval(spec, args, context) or Approved(_edited_args(intent))
        outcome = _settle_doubt(spec, _edited(command, begun), context)
        if not isinstance(outcome, CarryOut):
            return _with_edit(outcome, begun)
        if spec.in_doubt != "retry":
            # A person or a function has said that the earlier attempts did nothing.
            context.journal.settle(key, context.attempt)
    decision = decision_about(spec, args, context, begun)
    if isinstance(decision, Interrupt):
        context.journal.withdraw(key)
        return decision
    if isinstance(decision, ApprovalRefused):
        by = context.answered_by
        silence = (
            "there was no answer in time" if by == DEADLINE else "a person refused this command"
        )
        return refused(decision.words or silence, by)
    command = _edited(command, decision)
    if not spec.idempotent:
        is_edited = decision is not None and decision.args is not None
        context.journal.intend(f"{key} {canonical(dict(command.args))}" if is_edited else key)
    inside = without_decision(context).carrying_out(command)
    return _with_edit(_run(spec, command, inside, key), decision)


def _edited(command: Command, approved: Approved | None) -> Command:
    """Return the command with a person's edited arguments. Without an edit, it is unchanged."""
    if approved is None or approved.args is None:
        return command
    return replace(command, args=dict(approved.args))


def _with_edit(result: Any, approved: Approved | None) -> Any:
    """Return a command's result. If a person edited the arguments, add them and the person.

    An ``Interrupt`` and a ``Finish`` are returned unchanged.
    """
    if approved is None or approved.args is None or isinstance(result, Interrupt | Finish):
        return result
    by = approved.by or "a person"
    return {"result": result, "edited": {"by": by, "args": dict(approved.args)}}


def _run(spec: Executable, command: Command, inside: RoundContext, key: str) -> Any:
    named = spec.check(command.args)
    if spec.arguments.wants_context:
        named["context"] = inside
    if inside.traces_content:
        inside.traced[TOOL_ARGUMENTS] = canonical(dict(command.args))[:MOST_CONTENT]
    inside.journal.begin(spec.name, spec.idempotent)
    try:
        with nullcontext() if spec.idempotent or spec.waits else NoWaits(WAITS.format(spec.name)):
            result = call(spec.function, inside, named=named)
    except Parked:
        _withdraw_intent(inside, key)  # It is written again behind the wait.
        raise
    except RetryableError as error:
        # The command itself asks for a retry, so it did nothing, unless it was cut off or its
        # outcome is unknown.
        if not isinstance(error, OutcomeUnknown) and not inside.cancelled.is_set():
            _withdraw_intent(inside, key)
        raise
    if isinstance(result, Interrupt):
        _withdraw_intent(inside, key)  # A command asks before it does anything.
    if isinstance(result, Interrupt | Finish):
        return result
    what = f"the result of command {spec.name!r}"
    try:
        plain = storable(result, what)
    except UnstorableValue:  # Files in it are the only such thing that can be stored.
        plain = storable(with_references(result, inside.attach), what)
    if inside.traces_content:
        inside.traced[TOOL_RESULT] = canonical(plain)[:MOST_CONTENT]
    return plain


def _withdraw_intent(context: RoundContext, key: str) -> None:
    """Withdraw the intent of a command that did nothing.

    So the budget ``commands.NAME`` is not charged either.
    """
    context.journal.withdraw(key)
    context.journal.carried_out = None


def check_repeatable(
    spec: Executable, error: BaseException, args: Mapping[str, Any], context: RoundContext
) -> None:
    """Raise FatalError unless a failed command may be retried automatically.

    The exception ``error`` shows that the command failed, not that nothing happened. A retry is
    allowed in three cases: the command is idempotent, its ``in_doubt`` is ``retry``, ``ask`` or a
    function, or ``on`` of its ``retry`` names the error. In the first two cases, the intent of the
    command stays. Otherwise it is withdrawn, so that the next attempt carries the command out.
    """
    if spec.idempotent or spec.in_doubt not in (None, "tell_controller"):
        return
    context.journal.withdraw(context.key_of(Command(spec.name, dict(args))))
    if spec.retry is not None and spec.retry.names(spec.retry.on, error):
        return
    failure = safe_text(described(error), 2000)
    raise FatalError(
        f"run {context.run_id}, step {context.step}: command {spec.name!r} failed: {failure}. "
        "It is not idempotent, so it is not retried automatically. Check whether it has happened. "
        f"To carry it out again: perdure retry {context.run_id}. "
        "For automatic retries use @command(idempotent=True) or in_doubt='retry', "
        "name the error in @command(retry=Retry(on=[...])), "
        "or raise RetryableError if nothing has happened"
    ) from error


def _settle_doubt(spec: Executable, command: Command, context: RoundContext) -> Any:
    # Programs of a lost worker may still run. They must not do more behind the decision.
    kill = getattr(spec.function, "kill_leftovers", None)
    if kill is not None:
        kill(context)
    return settled(
        spec.in_doubt,
        command,
        spec.function,
        spec.named(command.args),
        altered(context, command=command),
    )


def _edited_args(intent: str) -> Mapping[str, Any] | None:
    """Return a person's edited arguments from a stored intent.

    Returns:
        None if the person did not change the arguments.
    """
    _, _, text = intent.partition(" ")
    return dict(json.loads(text)) if text else None
