"""ControllerExecutorFlow, a ring of two nodes: controller and executor.

The Controller decides the next command, and the Executor carries it out. The run ends when the
controller decides on ``finish``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.core.budgets import COMMANDS
from perdure.flows.core.genai_attributes import TOOL_CALL
from perdure.flows.core.history import EMPTY_HISTORY
from perdure.flows.core.names import ONLY, OPEN_ASKS
from perdure.flows.core.outcomes import (
    Advance,
    Command,
    End,
    Finish,
    Interrupt,
    Outcome,
    Renew,
    Turn,
)
from perdure.flows.rings.branching_flow import carry_out_chosen
from perdure.flows.rings.call_queue import QueuedCall
from perdure.flows.rings.circular import Node, resolve
from perdure.flows.rings.controller_settlement import output_of_round, settle_round
from perdure.flows.rings.decision import decide_and_check, with_commands, with_reply
from perdure.flows.rings.definition import ControllerExecutorDefinition
from perdure.flows.rings.held_turn import HELD, with_held
from perdure.flows.rings.parallel_calls import TOGETHER
from perdure.flows.rings.steered_rounds import hear_and_play, play_held, seen_by
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.messages_to_run import after_replies, with_values

#: The answer of a run that used up its cycles without an answer, if a controller decides.
UNFINISHED_ANSWER = "The maximum amount of rounds was reached before the model found an answer."
#: The answer of such a run if the flow's own code decides.
UNFINISHED_FLOW_ANSWER = "The maximum amount of rounds was reached before the flow found an answer."


class ControllerExecutorFlow(ControllerExecutorDefinition):
    """A ring of two nodes, ``Controller`` and ``Executor``.

    Input ``goal``, output ``answer`` and ``status`` (``finished`` or ``unfinished``).

    Subclass it with ``decide`` and ``@command`` methods, or construct it with ``controller``,
    ``commands`` and ``flow_config``. Keywords of the constructor override ``flow_config``, which
    overrides class attributes.

    The flow itself writes the values ``command``, ``command_args``, ``observation``, ``answer``
    (with the other arguments of ``finish``), ``status`` and the early exit. They cannot be
    remembered.

    Errors are for models, not for code. If the controller reads errors (a model, a person), a
    command's exception becomes its observation: ``{"error": "ValueError: its message"}``. A reply
    that names no command that can be carried out becomes a turn with such an observation.
    ``max_bad_replies`` of them in a row end the run errored. With a coded ``decide``, an exception
    fails the round, which is retried, and a bad reply ends the run errored at once. See
    docs/guides/errors.md.

    ``max_rounds`` is 30 if a controller decides. A class that defines ``decide`` has no limit.

    Attributes:
        controller: decides, unless the class defines ``decide``.
        commands: functions or ``CommandSpec`` objects, in addition to the methods marked
            ``@command``.
        flow_config: see ``ControllerExecutorConfig``.
        reads_errors: see above. None asks the controller, and is False if the class defines
            ``decide``.
        max_bad_replies: see above; at least 1.
        approvers: who may approve a command: ``anyone``, or ``others``, which excludes the
            submitter of the run.
        max_result: maximum characters of a command's result in the history. A longer result is kept
            whole as an artifact.
        parallel_calls: how many calls of one reply are carried out at once, each in a child run of
            its own. 1 carries them out one after another, in this run. The Executor must be the
            last node of the ring.
    """

    def choose_command(
        self, state: Mapping[str, Any], context: RoundContext
    ) -> Command | Finish | Interrupt | QueuedCall | Turn:
        """Run the Controller's round: get the controller's decision, and check it.

        If the decision is a list of calls, each call is checked.

        Raises:
            BadReply: the decision names no command that can be carried out.
        """
        return decide_and_check(self, state, context)

    def carry_out(
        self, state: Mapping[str, Any], context: RoundContext
    ) -> Mapping[str, Any] | Interrupt | Finish:
        """Run the Executor's round: carry out the command that the controller has chosen.

        Raises:
            BadReply: the command is unknown or its arguments are wrong. Nothing was carried out.
        """
        offered = self.offered()
        if OPEN_ASKS in context.committed:
            offered = with_reply(offered)
        call_id, _ = context.committed.get("_call") or ("", 0)
        if call_id:
            context.traced[TOOL_CALL] = call_id
        return carry_out_chosen(offered, state, context, self.tells_errors)

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Run a round of a node of the ring.

        The Controller reads messages from people to the run. A node after the Executor sees, and
        may change, the turn of the last command, which is not in the history yet.
        """
        if node == "Controller":
            return hear_and_play(self, context)
        outcome = play_held(self, node, seen_by(self, context))
        if not context.mailbox.replies or isinstance(outcome, Interrupt):
            return outcome
        if isinstance(outcome, Renew):
            context.remembered.update(after_replies(context))
            return outcome
        return with_values(outcome, after_replies(context))

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """Return the ring's state with the last command's result as ``observation``.

        The observation comes from the history, so it is not stored a second time as a value.
        """
        return {**super().state_for(place, context), "observation": context.observation}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """Convert a node's return value to values for the run.

        A command becomes the values ``command`` and ``command_args``. The command ``finish``
        becomes an early exit: the value True under ``early_exit_key``, with the arguments of
        ``finish`` and the status ``finished``. The extras of a reply are its fields other than the
        command. They become the value ``_said``. Of ``finish``, only the public extras do
        (``reply_extras.public``).
        """
        return output_of_round(self, place, result)

    def settle(
        self, place: Node, context: RoundContext, output: Mapping[str, Any]
    ) -> Advance | End:
        """Return the outcome of a node's round, with its turn, summary and values.

        The Executor's round adds a turn to the history. A good reply resets the count of bad
        replies. The summary is for people who watch the run.
        """
        return settle_round(self, place, context, output)

    def prompt_for(
        self, node: str, context: RoundContext, tools: bool = True
    ) -> Mapping[str, Any] | None:
        """Return the model request of the Controller's round, as JSON data for people.

        None for other nodes. None, too, if the class defines ``decide``, or if the controller asks
        no model.

        Args:
            tools: whether the model can call tools.
        """
        prompt = getattr(self.controller, "prompt_for", None)
        if node != "Controller" or self.decides() or not callable(prompt):
            return None
        held = context.committed.get(HELD)
        seen = seen_by(self, context if held is None else with_held(context, held))
        place = self._place(node)
        if place.reset:
            seen = altered(seen, history=EMPTY_HISTORY, remembered={})
        state = resolve(place.input_interface)(self.state_for(place, seen))
        full = with_commands(self, seen, str(state.get("node_goal") or ""))
        made: Mapping[str, Any] | None = prompt(full, tools)
        return made

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        """Return the estimated spending of a round, by budget.

        The controller estimates the Controller's round. The Executor's round counts as one call of
        its command, if the command has a budget.
        """
        if node == "Controller":
            estimate = getattr(self.controller, "estimate", None)
            return dict(estimate(with_commands(self, context))) if callable(estimate) else {}
        # Of concurrent calls, only those that ended are charged.
        if context.committed.get(ONLY) or context.committed.get(TOGETHER):
            return {}
        limited = f"{COMMANDS}{context.committed.get('command')}"
        return {limited: 1.0} if node == "Executor" and limited in context.budgets else {}

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the end of a run that used up its cycles. Its status is ``unfinished``.

        The answer is a fixed sentence.
        """
        answer = UNFINISHED_FLOW_ANSWER if self.decides() else UNFINISHED_ANSWER
        return End(answer, {"answer": answer, "status": "unfinished"})
