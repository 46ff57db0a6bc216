"""The Controller's decision: the offered commands, and the check of the controller's reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure.flows.commands.calls import call
from perdure.flows.commands.command import CommandSpec, Schemas, spec_of
from perdure.flows.commands.replies import read_reply
from perdure.flows.core.errors import BadReply, InvalidAnswer
from perdure.flows.core.outcomes import Command, Finish, Interrupt, Turn
from perdure.flows.rings.branching_flow import choose as choose_branch
from perdure.flows.rings.branching_flow import told
from perdure.flows.rings.call_queue import QueuedCall, queued, take
from perdure.flows.rings.definition import ControllerExecutorDefinition
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.messages_to_run import open_asks, reply

#: The command with which a controller answers a question that a person has asked the run.
REPLY = replace(spec_of(reply, "reply"), idempotent=True)


def decide_and_check(
    flow: ControllerExecutorDefinition, state: Mapping[str, Any], context: RoundContext
) -> Command | Finish | Interrupt | QueuedCall | Turn:
    """Run the Controller's round: get the controller's decision, and check it.

    Returns:
        The decision. If it is a list of calls, each call is checked, and the result is the first
        valid call with the waiting ones. A ``Turn`` is returned unchecked.

    Raises:
        BadReply: the decision names no command that can be carried out, or its answer is not of the
            flow's type.
    """
    full = with_commands(flow, context, str(state.get("node_goal") or ""))
    decided = call(flow.decide, full, full)
    if isinstance(decided, list):
        return _next_of_reply(flow, decided, bool(open_asks(context)))
    if isinstance(decided, Turn):
        return decided
    decision = read_reply(decided)
    if isinstance(decision, Command):
        return _checked(flow, decision, bool(open_asks(context)))
    if isinstance(decision, Finish):
        return Finish(_accepted_answer(flow, decision.answer))
    return decision


def with_commands(
    flow: ControllerExecutorDefinition, context: RoundContext, node_goal: str = ""
) -> RoundContext:
    """Return the round's context with the offered commands and the goal of the node."""
    asked = bool(open_asks(context))
    return altered(context, commands=Schemas(lambda: _schemas(flow, asked)), node_goal=node_goal)


def _schemas(flow: ControllerExecutorDefinition, asked: bool) -> list[dict[str, Any]]:
    """Return the tool definitions for a round.

    Args:
        asked: whether people's questions are open. The definition of ``reply`` is then included.
    """
    offered = flow.offered()
    return [
        *flow.schemas(),
        *([REPLY.schema()] if asked and REPLY.name not in offered else ()),
    ]


def _checked(flow: ControllerExecutorDefinition, decision: Command, asked: bool = False) -> Command:
    """Return a decision, after the check that this flow can carry it out.

    Args:
        asked: whether people's questions are open. The command ``reply`` is then allowed.

    Raises:
        BadReply: this flow cannot carry out the command. The error has the command.
    """
    try:
        if decision.name == "finish":
            args = flow.finish.check(decision.args)
            answer = _accepted_answer(flow, args["answer"])
            return replace(decision, args={**args, "answer": answer})
        offered = with_reply(flow.offered()) if asked else flow.offered()
        choose_branch(offered, decision.name, decision.args, also=["finish"])
    except BadReply as error:
        error.command = decision
        raise
    return decision


def _accepted_answer(flow: ControllerExecutorDefinition, answer: Any) -> Any:
    """Return a controller's answer as data of the flow's answer type.

    If the flow has no answer type, the answer is returned unchanged.

    Raises:
        BadReply: the answer is of another type.
    """
    answers = flow.answer_type()
    if answers is None:
        return answer
    try:
        return answers.check(answer, "command 'finish': ")
    except InvalidAnswer as error:
        raise BadReply(str(error)) from error


def with_reply(offered: dict[str, CommandSpec]) -> dict[str, CommandSpec]:
    """Return the commands with ``reply`` added. A ``reply`` of the flow's own is kept."""
    return {REPLY.name: REPLY, **offered}


def _next_of_reply(flow: ControllerExecutorDefinition, reply: list[Any], asked: bool) -> QueuedCall:
    calls = queued(reply, lambda decision: _checked(flow, _command_of(decision), asked))
    fault = (
        None
        if flow.tells_errors
        else next((call["error"] for call in calls if "error" in call), None)
    )
    if fault is not None:
        raise BadReply(fault)
    taken = take(calls)
    if taken.command is None:
        last = (
            taken.refused[-1]
            if taken.refused
            else Turn(None, told(BadReply("the reply holds no call")))
        )
        raise BadReply(
            str(last.observation["error"]).removeprefix("BadReply: "),
            last.command,
            taken.refused[:-1],
        )
    return taken


def _command_of(decision: Any) -> Command:
    """Convert one decision of a list to a command.

    Raises:
        BadReply: ``decision`` is not a command.
    """
    decision = read_reply(decision)
    if not isinstance(decision, Command):
        raise BadReply(
            f"a list of decisions must hold commands only; this is a {type(decision).__name__}"
        )
    return decision
