"""Carrying out a command: approved, not in doubt, its intent written down, in this order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.approvals import Refused, approved
from flows.calls import call
from flows.context import RoundContext, altered
from flows.conventions import EXECUTE_TOOL, OPERATION, TOOL
from flows.doubts import CarryOut, settled
from flows.errors import FatalError, OutcomeUnknown, RetryableError
from flows.outcomes import Command, Finish, Interrupt
from flows.summaries import safe_text
from flows.values import canonical, storable

if TYPE_CHECKING:
    from flows.commands import CommandSpec


def carry_out(spec: CommandSpec, args: Mapping[str, Any], context: RoundContext) -> Any:
    """Check the arguments, ask whoever has to approve, run the function, and return plain JSON, an ``Interrupt`` or a ``Finish``.

    Before a command that is not idempotent runs, its intent is written down; where an earlier attempt of this step has written
    one, the command is in doubt, and its policy decides.

    Raises:
        BadReply: wrong arguments. UnstorableValue: the result is not JSON. Else whatever the function raises.
    """
    context.traced.update({OPERATION: EXECUTE_TOOL, TOOL: spec.name})
    spec.check(args)
    command = Command(spec.name, dict(args))
    key = context.key_of(command)
    intended = None if spec.idempotent else context.journal.in_doubt(key)
    edited = None
    if intended is not None:
        edited = _edited(intended)
    elif spec.approval is not None and spec.approval.is_needed(args):
        said = approved(spec.approval, command, spec.check, context)
        if isinstance(said, Interrupt):
            return said
        if isinstance(said, Refused):
            by = {"by": context.answered_by} if context.answered_by else {}
            return {"refused": said.words or "a person refused this command", **by}
        edited = said.args
    if edited is not None:
        command = replace(command, args=dict(edited))
    result = CarryOut() if intended is None else _doubt(spec, command, context)
    if isinstance(result, CarryOut):
        if not spec.idempotent:
            context.journal.intend(key if edited is None else f"{key} {canonical(dict(edited))}")
        result = _run(spec, command, context.carrying_out(command), key)
    if edited is None or isinstance(result, Interrupt | Finish):
        return result
    # Behind an intent, the newest answer is about the doubt; who changed the arguments then stands in the events alone.
    editor = context.answered_by if isinstance(context.asked, Mapping) and "approval" in context.asked else None
    return {"result": result, "edited": {"by": editor or "a person", "args": dict(edited)}}


def _run(spec: CommandSpec, command: Command, inside: RoundContext, key: str) -> Any:
    named = spec.check(command.args)
    if spec.arguments.wants_context:
        named["context"] = inside
    inside.journal.carried_out = spec.name
    inside.journal.is_repeatable = spec.idempotent and inside.journal.is_repeatable is not False
    try:
        result = call(spec.function, inside, named=named)
    except RetryableError as error:
        # The command itself says that it may be tried again; unless it was cut off, or does not know.
        if not isinstance(error, OutcomeUnknown) and not inside.cancelled.is_set():
            _take_back(inside, key)
        raise
    if isinstance(result, Interrupt):
        _take_back(inside, key)  # it asks before it does anything
    if isinstance(result, Interrupt | Finish):
        return result
    return storable(result, f"the result of command {spec.name!r}")


def _take_back(context: RoundContext, key: str) -> None:
    """Note that this attempt did nothing. Its intent is withdrawn, and the command's budget is not charged."""
    context.journal.withdraw(key)
    context.journal.carried_out = None


def check_repeatable(spec: CommandSpec, error: BaseException, args: Mapping[str, Any], context: RoundContext) -> None:
    """Raise FatalError if the round may not be tried again by itself after ``error``, an exception of the command.

    The exception says that the command failed. It does not say that nothing happened. A command that is not idempotent and has no
    policy for doubts ends the run errored, unless ``on`` of its ``retry`` names the error. Its intent is taken back, so that the next
    attempt carries it out again.
    """
    if spec.idempotent or spec.in_doubt not in (None, "tell_controller"):
        return
    context.journal.withdraw(context.key_of(Command(spec.name, dict(args))))
    if spec.retry is not None and spec.retry.names(spec.retry.on, error):
        return
    what = safe_text(f"{type(error).__name__}: {error}", 2000)
    raise FatalError(
        f"run {context.run_id}, step {context.step}: command {spec.name!r} failed: {what}. It is not idempotent, "
        f"so it is not carried out again by itself. See whether it has happened; holdfast retry {context.run_id} carries it out again. "
        "For automatic retries say @command(idempotent=True) or in_doubt='retry', name the error in @command(retry=Retry(on=[...])), "
        "or raise RetryableError where nothing has happened"
    ) from error


def _doubt(spec: CommandSpec, command: Command, context: RoundContext) -> Any:
    return settled(spec.in_doubt, command, spec.function, spec.check(command.args), altered(context, command=command))


def _edited(intent: str) -> Mapping[str, Any] | None:
    """The arguments that a person had put in place of the controller's, which the intent names then."""
    _, _, text = intent.partition(" ")
    return dict(json.loads(text)) if text else None
