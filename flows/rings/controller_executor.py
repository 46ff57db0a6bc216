"""ControllerExecutorFlow, a ring of two nodes: one decides the next command, one carries it out.

The run ends when the controller answers with ``finish``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from perdure.flows.commands.calls import call, playing
from perdure.flows.commands.command import (
    CommandSpec,
    Schemas,
    commands_of,
    lacks_of,
    parts_of,
    spec_of,
)
from perdure.flows.commands.controller import Controller
from perdure.flows.commands.replies import read_reply
from perdure.flows.core.budgets import COMMANDS, check_commands
from perdure.flows.core.errors import (
    BadReply,
    CodeDoesNotFit,
    FatalError,
    InvalidAnswer,
    InvalidFlow,
    InvalidInput,
)
from perdure.flows.core.genai_attributes import TOOL_CALL
from perdure.flows.core.history import EMPTY_HISTORY
from perdure.flows.core.names import BAD_REPLIES, ONLY, OPEN_ASKS, suggest
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
from perdure.flows.core.reply_extras import public, with_long_replies_apart
from perdure.flows.core.retry import Retry
from perdure.flows.core.summaries import MOST, bounded, digest, shown, summary_of
from perdure.flows.core.validation import check_count
from perdure.flows.rings.branching_flow import carry_out_chosen, choose, told
from perdure.flows.rings.call_queue import QueuedCall, data_of, queued, take
from perdure.flows.rings.circular import CircularFlow, Node, resolve
from perdure.flows.rings.config import (
    APPROVERS,
    DESCRIPTION,
    ControllerExecutorConfig,
    FinishConfig,
    read_config,
)
from perdure.flows.rings.held_turn import (
    HELD,
    amended,
    hold,
    kept_on,
    released,
    turn_of,
    with_held,
)
from perdure.flows.rings.parallel_calls import (
    TOGETHER,
    WAIT,
    budget_left,
    call_run,
    count_together,
    end_of_call,
    fault_of_ring,
    fitted,
    join,
    summary_of_calls,
    summary_of_decision,
)
from perdure.flows.rounds.children import Ended, InvalidChild
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.flow import title
from perdure.flows.rounds.messages_to_run import (
    PUT_OFF,
    after_replies,
    hear,
    open_asks,
    put_off,
    reply,
    with_heard,
    with_values,
    without_remarks,
)

#: The answer of a run that used up its cycles without an answer, if a controller decides.
UNFINISHED_ANSWER = "The maximum amount of rounds was reached before the model found an answer."
#: The answer of such a run if the flow's own code decides.
UNFINISHED_FLOW_ANSWER = "The maximum amount of rounds was reached before the flow found an answer."

#: The command with which a controller answers a question that a person has asked the run.
REPLY = replace(spec_of(reply, "reply"), idempotent=True)


@cache
def _reserved(*names: str) -> frozenset[str]:
    return frozenset(("command", "command_args", "observation", "status", *names))


@cache
def _in_order(names: frozenset[str]) -> Sequence[str]:
    return tuple(sorted(names))


class ControllerExecutorFlow(CircularFlow):
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
        approvers: who may approve a command: ``anyone``, or ``others``, which excludes the person
            who submitted the run.
        max_result: maximum characters of a command's result in the history. A longer result is kept
            whole as an artifact.
        parallel_calls: how many calls of one reply are carried out at once, each in a child run of
            its own. 1 carries them out one after another, in this run. The Executor must be the
            last node of the ring.
    """

    name: str = "CtrlEx"
    description: str = DESCRIPTION
    max_rounds: int | None = 30
    topology: Sequence[Node] = (
        Node("Controller", "choose_command", role="controller"),
        Node(
            "Executor",
            "carry_out",
            input_interface="command_to_branch",
            output_interface="branch_to_observation",
        ),
    )
    controller: Controller | None = None
    commands: Sequence[CommandSpec | Callable[..., Any]] = ()
    flow_config: Mapping[str, Any] | ControllerExecutorConfig = ControllerExecutorConfig()
    reads_errors: bool | None = None
    max_bad_replies: int = 3
    max_result: int = MOST
    approvers: str = "anyone"
    parallel_calls: int = 1

    #: Names of the attributes that keywords of the constructor may override.
    settings = (
        *CircularFlow.settings,
        "controller",
        "commands",
        "reads_errors",
        "max_bad_replies",
        "max_result",
        "approvers",
        "parallel_calls",
    )

    def __init__(
        self,
        *,
        flow_config: Mapping[str, Any] | ControllerExecutorConfig | None = None,
        **settings: Any,
    ) -> None:
        """Create the flow from ``flow_config``, whose settings the keywords override."""
        config = read_config(self.flow_config if flow_config is None else flow_config)
        self.flow_config = config
        configured = {
            key: getattr(config, key)
            for key in config.model_fields_set - {"subflows_config", "topology"}
        }
        super().__init__(**{**configured, **settings})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove the default limit of cycles from a flow class that defines ``decide``.

        The limit of 30 cycles is meant for models.
        """
        super().__init_subclass__(**kwargs)
        owner = next(base for base in cls.__mro__ if "max_rounds" in vars(base))
        if owner is ControllerExecutorFlow and cls.decides():
            cls.max_rounds = None

    @classmethod
    def decides(cls) -> bool:
        """Return whether the flow's own method ``decide`` chooses commands, not a controller."""
        return cls.decide is not ControllerExecutorFlow.decide

    def decide(self, context: RoundContext) -> Any:
        """Return what the run does next (a command, say), as the flow's controller decides.

        Override it, or pass a controller.
        """
        if self.controller is None:
            raise InvalidFlow(
                f"{title(self)} has neither a controller nor a method decide; "
                "pass controller=<Controller>"
            )
        return self.controller.decide(context)

    def check_definition(self) -> None:
        """Raise InvalidFlow if the flow's controller, commands or other settings are not valid.

        Raises:
            InvalidFlow: nothing decides, a command is named ``finish``, a command runs a shell that
                the flow does not declare, or the configuration names an unknown command.
        """
        if not self.decides() and not callable(getattr(self.controller, "decide", None)):
            raise InvalidFlow(
                f"{title(self)}: its controller is {self.controller!r}; "
                "expected a method decide, or controller=<Controller>"
            )
        if "finish" in self.offered():
            raise InvalidFlow(
                f"{title(self)}: 'finish' is the command that ends the run; rename yours"
            )
        for spec in self.offered().values():
            if spec.runs_shell and not self.runs_shell:
                raise InvalidFlow(
                    f"{title(self)}: command {spec.name} runs what a controller writes; "
                    "set runs_shell: true for a flow that offers it"
                )
        check_count(self.max_bad_replies, f"{title(self)}: max_bad_replies")
        check_count(self.max_result, f"{title(self)}: max_result")
        check_count(self.parallel_calls, f"{title(self)}: parallel_calls")
        fault = fault_of_ring(self.parallel_calls, self.topology)
        if fault is not None:
            raise InvalidFlow(f"{title(self)}: {fault}")
        if self.approvers not in APPROVERS:
            raise InvalidFlow(
                f"{title(self)}: approvers is {self.approvers!r}; "
                f"expected one of {', '.join(map(repr, APPROVERS))}"
            )
        try:
            check_commands(self.budgets, self.command_names, title(self))
        except InvalidInput as error:
            raise InvalidFlow(str(error)) from error
        for name, chosen in self.config.subflows_config.Executor.chosen.items():
            if chosen.approved_arguments:
                self._check_approval(self.offered()[name], chosen.approved_arguments)
        super().check_definition()

    def _check_approval(self, command: CommandSpec, arguments: Iterable[str]) -> None:
        """Raise InvalidFlow if an approval rule names an argument that its command does not have.

        A command that accepts any arguments, as some tools of servers do, is not checked.
        """
        schema = command.schema()["parameters"]
        known = schema.get("properties", {})
        if schema.get("additionalProperties") or (command.takes is not None and not known):
            return
        for argument in arguments:
            if argument not in known:
                raise InvalidFlow(
                    f"{title(self)}: the approval of command {command.name!r} names the unknown "
                    f"argument {argument!r}; {suggest(argument, known)}"
                )

    @property
    def command_names(self) -> Sequence[str]:
        """The commands that a budget ``commands.NAME`` of this flow's runs can limit."""
        return list(self.offered())

    @property
    def allowed_models(self) -> Sequence[str]:
        """The models of which a submission may choose one, as the flow's controller says."""
        return tuple(getattr(self.controller, "allowed_models", ()))

    @property
    def fork_nodes(self) -> Sequence[str]:
        """The Controller, whose reply depends on the history. No call of a reply waits there."""
        return ("Controller",)

    @property
    def own_values(self) -> Sequence[str]:
        """The values that the Controller writes anew with each reply."""
        return _in_order(self.reserved)

    @property
    def missing(self) -> str | None:
        """What this process lacks for the flow's controller or commands, as a sentence, or None."""
        return lacks_of([self.controller, *parts_of(self.offered().values())])

    @property
    def config(self) -> ControllerExecutorConfig:
        """The validated configuration of the flow."""
        return read_config(self.flow_config)

    @property
    def finish(self) -> FinishConfig:
        """The configuration of ``finish``, the command with which the controller ends the run."""
        return self.config.subflows_config.Controller.finish

    def offered(self) -> dict[str, CommandSpec]:
        """Return the commands that the flow's controller can choose, by name, without ``finish``.

        Raises:
            InvalidFlow: the configuration names an unknown command.
        """
        brought = getattr(self.controller, "own_commands", ())
        every = commands_of(self, [*self.commands, *brought])
        chosen = self.config.subflows_config.Executor.chosen
        for name, config in chosen.items():
            started = config.flow_command(name)
            if started is not None and name in every and every[name].takes != started.takes:
                raise InvalidFlow(f"two commands are named {name!r}; names must differ")
            if started is not None:
                every.setdefault(name, started)
            if name not in every:
                raise InvalidFlow(
                    f"{title(self)}: Executor.subflows_config names the unknown command "
                    f"{name!r}; {suggest(name, every)}"
                )
        if not chosen:
            return every
        offered = {name: every[name].configured(chosen[name].said) for name in chosen}
        return {**offered, **{spec.name: spec for spec in brought if spec.name not in offered}}

    def schemas(self) -> list[dict[str, Any]]:
        """Return the flow's commands, ``finish`` included, as tool definitions for models."""
        answers = self.answer_type()
        return [
            *(spec.schema() for spec in self.offered().values()),
            self.finish.schema_of_command(None if answers is None else answers.schema),
        ]

    def choose_command(
        self, state: Mapping[str, Any], context: RoundContext
    ) -> Command | Finish | Interrupt | QueuedCall | Turn:
        """Play the Controller's round: get the controller's decision, and check it.

        A decision may be a list of calls. Each of them is checked.

        Raises:
            BadReply: the decision names no command that can be carried out.
        """
        full = self._with_commands(context, str(state.get("node_goal") or ""))
        decided = call(self.decide, full, full)
        if isinstance(decided, list):
            return self._next_of_reply(decided, bool(open_asks(context)))
        if isinstance(decided, Turn):
            return decided
        decision = read_reply(decided)
        if isinstance(decision, Command):
            return self._checked(decision, bool(open_asks(context)))
        if isinstance(decision, Finish):
            return Finish(self._accepted_answer(decision.answer))
        return decision

    def _with_commands(self, context: RoundContext, node_goal: str = "") -> RoundContext:
        """Return a copy of the round's context with the commands that the controller can choose."""
        asked = bool(open_asks(context))
        return altered(context, commands=Schemas(lambda: self._schemas(asked)), node_goal=node_goal)

    def _schemas(self, asked: bool) -> list[dict[str, Any]]:
        """Return the tool definitions for a round, with ``reply`` if a question is open."""
        offered = self.offered()
        return [
            *self.schemas(),
            *([REPLY.schema()] if asked and REPLY.name not in offered else ()),
        ]

    def _checked(self, decision: Command, asked: bool = False) -> Command:
        """Check that this flow can carry out a command.

        Raises:
            BadReply: it cannot.
        """
        try:
            if decision.name == "finish":
                args = self.finish.check(decision.args)
                answer = self._accepted_answer(args["answer"])
                return replace(decision, args={**args, "answer": answer})
            offered = self._with_reply(self.offered()) if asked else self.offered()
            choose(offered, decision.name, decision.args, also=["finish"])
        except BadReply as error:
            error.command = decision
            raise
        return decision

    def _accepted_answer(self, answer: Any) -> Any:
        """Return a controller's answer as JSON data of the flow's type, or as it is without a type.

        Raises:
            BadReply: it is of another type.
        """
        answers = self.answer_type()
        if answers is None:
            return answer
        try:
            return answers.check(answer, "command 'finish': ")
        except InvalidAnswer as error:
            raise BadReply(str(error)) from error

    @property
    def tells_errors(self) -> bool:
        """Whether the exception of a command becomes an observation for the controller.

        Otherwise the exception fails the round.
        """
        if self.reads_errors is not None:
            return self.reads_errors
        own = type(self).decide is not ControllerExecutorFlow.decide
        return not own and bool(getattr(self.controller, "reads_errors", False))

    @staticmethod
    def _with_reply(offered: dict[str, CommandSpec]) -> dict[str, CommandSpec]:
        """Return the commands with the built-in ``reply``, unless the flow has one of that name."""
        return {REPLY.name: REPLY, **offered}

    def _next_of_reply(self, reply: list[Any], asked: bool) -> QueuedCall:
        calls = queued(reply, lambda decision: self._checked(_command_of(decision), asked))
        fault = (
            None
            if self.tells_errors
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

    def carry_out(
        self, state: Mapping[str, Any], context: RoundContext
    ) -> Mapping[str, Any] | Interrupt | Finish:
        """Play the Executor's round: carry out the command that the controller has chosen.

        Raises:
            BadReply: nothing was carried out.
        """
        offered = self.offered()
        if OPEN_ASKS in context.committed:
            offered = self._with_reply(offered)
        call_id, _ = context.committed.get("_call") or ("", 0)
        if call_id:
            context.traced[TOOL_CALL] = call_id
        return carry_out_chosen(offered, state, context, self.tells_errors)

    @property
    def reserved(self) -> frozenset[str]:
        """The names of a run's values that the flow itself writes. Nodes cannot remember them."""
        return _reserved(self.early_exit_key, *self.finish.input_args)

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Play a round of the Controller, the Executor or another node of the ring.

        A node after the Executor sees, and may change, a turn that is not in the history yet. The
        Controller hears what people have said to the run.
        """
        if node == "Controller":
            return self._hear_and_play(context)
        outcome = self._play_held(node, self._seen(context))
        if not context.mailbox.replies or isinstance(outcome, Interrupt):
            return outcome
        if isinstance(outcome, Renew):
            context.remembered.update(after_replies(context))
            return outcome
        return with_values(outcome, after_replies(context))

    def _hear_and_play(self, context: RoundContext) -> Outcome:
        """Play the Controller's round, with what people have said in its history.

        If the run would end, but something was said after the round has looked, it goes on.
        """
        heard, hearing = hear(context, self.max_result)
        outcome = self._play_held("Controller", self._seen(hearing))
        if isinstance(outcome, Interrupt | Renew):
            return outcome
        replied = after_replies(hearing)
        if context.committed.get(PUT_OFF) and not isinstance(outcome, End):
            replied[PUT_OFF] = 0
        outcome = with_heard(with_values(outcome, replied), heard)
        if isinstance(outcome, Advance):
            return outcome
        values = outcome.values
        kept = {
            name: values[name] for name in (*heard.values, OPEN_ASKS, BAD_REPLIES) if name in values
        }
        advance = Advance("Controller", outcome.turns, kept, artifacts=outcome.artifacts)
        finish = self._finish_of(outcome) if self.tells_errors else None
        return put_off(outcome, advance, finish, context.committed)

    def _finish_of(self, end: End) -> Command:
        """Return the command ``finish`` by which the controller ended the run."""
        names = [name for name in self.finish.input_args if name in end.values]
        call_id, part = end.values.get("_call") or ("", 0)
        args = {name: end.values[name] for name in names}
        return Command("finish", args, end.values.get("_said", {}), call_id, part)

    def _seen(self, context: RoundContext) -> RoundContext:
        """Return the context of a round as this flow sees it.

        Code counts its decisions by the length of the history, so what people said is apart.
        """
        return context if self.tells_errors else without_remarks(context)

    def _play_held(self, node: str, context: RoundContext) -> Outcome:
        """Play a round as ``play`` does, without what people have said."""
        if context.committed.get(ONLY):
            return self._play_call(context)
        held = context.committed.get(HELD)
        if held is None:
            return self._play(node, context)
        outcome = self._play(node, with_held(context, held))
        if isinstance(outcome, Renew):
            return replace(outcome, turns=(turn_of(held), *outcome.turns))
        return (
            outcome
            if isinstance(outcome, Interrupt)
            else self._with_held_turn(node, outcome, held, context)
        )

    def _with_held_turn(
        self, node: str, outcome: Advance | End, held: Mapping[str, Any], context: RoundContext
    ) -> Advance | End:
        """Return a round's outcome that adds the held turn to the history, or holds it further.

        A held turn is the last command with its result, before the history has it. It is added at
        the end of the cycle.
        """
        # It is held here only if a worker of an older release played the nodes in between.
        if node in ("Controller", "Executor"):
            return released(outcome, held)
        changed, outcome = amended(held, outcome, self.max_result, context.step)
        if isinstance(outcome, Advance) and not outcome.ends_cycle:
            return kept_on(outcome, changed, held)
        outcome = released(outcome, changed)
        return outcome if isinstance(outcome, End) else self._continue_reply(outcome, context)

    def _play_call(self, context: RoundContext) -> Outcome:
        """Play the only round of a run that carries out one of the calls of its parent's reply."""
        try:
            with playing(context.cancelled):
                outcome = super().play("Executor", altered(context, reserved=self.reserved))
        except BadReply as error:
            if not self.tells_errors:
                raise CodeDoesNotFit(
                    f"run {context.run_id}, step {context.step}: {error}"
                ) from error
            outcome = Advance("Controller", (Turn(_decided(context.committed), told(error)),))
        if isinstance(outcome, Interrupt):
            return self._with_approvers(outcome)
        if isinstance(outcome, Renew):
            raise FatalError(
                f"run {context.run_id}, step {context.step}: expected the result of a command, got "
                "Renew; the run of one of several calls cannot be renewed"
            )
        return end_of_call(
            outcome,
            lambda name: not name.startswith("_") and name not in self.reserved,
            self.early_exit_key,
        )

    def _play_calls(self, context: RoundContext) -> Outcome:
        """Play the Executor's round for several calls of a reply: start a run for each, and wait.

        Raises:
            ChildFailed: a call failed, and the controller does not read errors.
        """
        values = context.committed
        waiting = values["_waiting"][: values[TOGETHER]]
        calls = [data_of(_decided(values)), *waiting]
        runs = [call_run(self.name, call, context) for call in calls if "error" not in call]
        try:
            group = context.gather(
                runs, wait="settled", max_concurrency=self.parallel_calls, name=WAIT
            )
        except InvalidChild as error:
            context.logger.warning(
                "run %s, step %d: the calls of this reply are carried out one after another, "
                "because they cannot be started as runs: %s",
                context.run_id,
                context.step,
                error,
            )
            return self._play_alone(context)
        return self._join_calls(calls, group, context)

    def _play_alone(self, context: RoundContext) -> Outcome:
        """Carry out the first of several calls in this run, because no child runs can be started.

        The others follow in rounds of their own.
        """
        committed = {**context.committed, TOGETHER: 0}
        outcome = self._play("Executor", altered(context, committed=committed))
        if isinstance(outcome, Interrupt | Renew):
            return outcome
        budget = f"{COMMANDS}{context.journal.carried_out}"
        if budget in context.budgets:
            context.spend(**{budget: 1})
        return replace(outcome, values={TOGETHER: 0, **outcome.values})

    def _join_calls(
        self, calls: Sequence[Mapping[str, Any]], ends: Iterable[Ended], context: RoundContext
    ) -> Outcome:
        """Return the outcome of calls that were carried out at once, with a turn for each.

        Each run that has ended is charged to the budget of its command.
        """
        joined = join(calls, ends, self._observes)
        for call_data in calls:
            budget = f"{COMMANDS}{call_data.get('name')}"
            if budget in context.budgets and "error" not in call_data:
                context.spend(**{budget: 1})
        waiting = context.committed["_waiting"][len(calls) - 1 :]
        turns, artifacts = fitted(joined.turns, waiting, context.step)
        summary = summary_of_calls(turns, joined.failed)
        values = {**context.remembered, **joined.values, TOGETHER: 0, "_waiting": waiting}
        if not joined.finish:
            coming = Advance("Controller", turns, values, True, summary, artifacts)
            return self._continue_reply(coming, context)
        values |= {self.early_exit_key: True, **joined.finish}
        state = {**context.committed, **values}
        return End(state.get("answer"), self._output(state), turns, values, summary, artifacts)

    def _observes(self, command: str) -> bool:
        """Return whether the controller observes an exception of a command."""
        spec = self.offered().get(command)
        return self.tells_errors if spec is None else spec.is_observed(self.tells_errors)

    def _count_together(
        self, first: Command, waiting: Sequence[Mapping[str, Any]], context: RoundContext
    ) -> int:
        """Return how many of a reply's waiting calls are carried out at once with its first one."""
        offered = self.offered()

        def most(name: str) -> float:
            if name not in offered:
                return 0  # ``reply`` answers a question to this run, so this run carries it out.
            own = offered[name].max_concurrency
            left = budget_left(context, name)
            return left if own is None else min(left, own)

        return count_together(first, waiting, most)

    def _play(self, node: str, context: RoundContext) -> Outcome:
        """Play a round, and handle a reply of the controller that names no valid command.

        If the controller reads errors, the bad reply goes back to it as a turn. If code decides,
        the run ends errored.
        """
        if node == "Executor" and context.committed.get(TOGETHER):
            return self._play_calls(context)
        try:
            with playing(context.cancelled):
                outcome = self._with_approvers(
                    super().play(node, altered(context, reserved=self.reserved))
                )
            return (
                outcome
                if node != "Controller" or isinstance(outcome, Interrupt | Renew)
                else with_long_replies_apart(outcome, context.step)
            )
        except BadReply as error:
            where = f"run {context.run_id}, step {context.step}"
            if not self.tells_errors:
                raise CodeDoesNotFit(
                    f"{where}: the code of {title(self)} decided on a command that cannot be "
                    f"carried out: {error}. Code does not read errors, so correct the code"
                ) from error
            bad = context.committed.get(BAD_REPLIES, 0) + 1
            if bad >= self.max_bad_replies:
                raise FatalError(
                    f"{where}: {bad} bad replies of the controller in a row; the last one: {error}"
                ) from error
            values = {**context.remembered, BAD_REPLIES: bad}
            summary = {"error": shown(str(error))}
            if node == "Executor":
                turn = Turn(_decided(context.committed), told(error))
                coming = Advance("Controller", (turn,), values, ends_cycle=True, summary=summary)
                return self._continue_reply(coming, context)
            turns = (*error.others, Turn(error.command, told(error)))
            return with_long_replies_apart(
                Advance("Controller", turns, values, ends_cycle=True, summary=summary), context.step
            )

    def _with_approvers(self, outcome: Outcome) -> Outcome:
        """Return a round's outcome; if it asks for an approval, it also says who may give it."""
        if (
            self.approvers == "anyone"
            or not isinstance(outcome, Interrupt)
            or not isinstance(outcome.data, dict)
        ):
            return outcome
        about = outcome.data.get("approval")
        if not isinstance(about, dict):
            return outcome
        return replace(
            outcome, data={**outcome.data, "approval": {**about, "approvers": self.approvers}}
        )

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """Return the ring's state for a node, with the result of the last command in it.

        The history keeps this ``observation``, so it is not stored a second time as a value.
        """
        return {**super().state_for(place, context), "observation": context.observation}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """Convert what the Controller's or another node's function returned to values for the run.

        The command ``finish`` becomes an early exit, and what a reply says in addition to its
        command is kept.
        """
        if isinstance(result, Turn):
            return {"_turn": result}
        if isinstance(result, QueuedCall):
            assert result.command is not None  # ``_next_of_reply`` raises BadReply without one.
            return {
                **self.output_of(place, result.command),
                "_refused": result.refused,
                "_waiting": list(result.waiting),
            }
        if isinstance(result, Command) and result.name == "finish":
            return {
                self.early_exit_key: True,
                **result.args,
                "status": "finished",
                "_said": public(result.extras),
                **(_call_of(result) if result.call else {}),
            }
        output = super().output_of(place, result)
        return (
            {**output, "_said": dict(result.extras), **_call_of(result)}
            if isinstance(result, Command)
            else output
        )

    def settle(
        self, place: Node, context: RoundContext, output: Mapping[str, Any]
    ) -> Advance | End:
        """Return the outcome of a round of this node, with its turn, its summary and its values.

        The Executor's round adds a turn to the history, a good reply resets the count of bad ones,
        and people who watch get a summary.
        """
        values = dict(output)
        if place.name == "Controller":
            if context.committed.get(BAD_REPLIES):
                values[BAD_REPLIES] = 0
            if "_turn" in values:
                turn = values.pop("_turn")
                summary = summary_of(turn.command or Command(""), observation=turn.observation)
                return Advance(
                    "Controller",
                    (turn,),
                    {**context.remembered, **values},
                    ends_cycle=True,
                    summary=summary,
                )
            refused: tuple[Turn, ...] = values.pop("_refused", ())
            # An empty value is written only to clear that of an earlier reply.
            for name in ("_waiting", "_call"):
                if not values.get(name) and not context.committed.get(name):
                    values.pop(name, None)
            outcome = super().settle(place, context, values)
            if refused:
                outcome = replace(outcome, turns=refused)
            if isinstance(outcome, Advance):
                self._check_decided(values)
                outcome = self._decided_together(outcome, context)
            if isinstance(outcome, End):
                return replace(
                    outcome,
                    summary=summary_of(
                        Command("finish", extras=values.get("_said", {})), answer=outcome.answer
                    ),
                )
            if outcome.values.get(TOGETHER):
                waiting = outcome.values["_waiting"][: outcome.values[TOGETHER]]
                return replace(outcome, summary=summary_of_decision(_decided(values), waiting))
            return replace(outcome, summary=summary_of(_decided(values)))
        if place.name == "Executor":
            command = _decided(context.committed)
            observation, artifacts = bounded(
                values.pop("observation", None),
                self.max_result,
                f"{context.step}-{command.name}",
                context.run_id if context.committed.get(ONLY) else "",
            )
            outcome = super().settle(place, context, values)
            bare = replace(command, extras={}) if command.extras else command
            summary = summary_of(bare, observation=observation, digest=digest(observation))
            # Nodes that may change the observation follow in this cycle.
            if isinstance(outcome, Advance) and not outcome.ends_cycle:
                held = {**outcome.values, HELD: hold(command, observation, artifacts)}
                return replace(
                    outcome,
                    values=held,
                    summary=summary_of(bare),
                    artifacts=artifacts,
                )
            outcome = replace(
                outcome, turns=(Turn(command, observation),), summary=summary, artifacts=artifacts
            )
            return outcome if isinstance(outcome, End) else self._continue_reply(outcome, context)
        if "observation" in values and context.committed.get(HELD) is None:
            self._check_observes(place, context)
            del values["observation"]
        return super().settle(place, context, values)

    def _decided_together(self, outcome: Advance, context: RoundContext) -> Advance:
        """Return the outcome that decided on a command, with the count of calls beside it."""
        values = outcome.values
        waiting = values.get("_waiting")
        together = (
            self._count_together(_decided(values), waiting, context)
            if self.parallel_calls > 1 and waiting
            else 0
        )
        if not together and not context.committed.get(TOGETHER):
            return outcome
        return replace(outcome, values={**values, TOGETHER: together})

    def _check_observes(self, place: Node, context: RoundContext) -> None:
        """Raise FatalError if a node before the Executor has returned an ``observation``.

        It could never reach the controller.
        """
        names = [node.name for node in self.topology]
        if names.index(place.name) < names.index("Executor"):
            raise FatalError(
                f"{title(self)}: node {place.name} returned 'observation'; "
                "only nodes after the Executor, in the same cycle, can change the observation. "
                "Move the node there, or return another name"
            )
        # A worker of an older release has added the turn to the history, where it cannot change.
        context.logger.warning(
            "run %s, step %d: an older worker has already added the turn to the history, "
            "so node %s cannot change its observation; from the next cycle on it can",
            context.run_id,
            context.step,
            place.name,
        )

    def _check_decided(self, values: Mapping[str, Any]) -> None:
        """Raise FatalError if the Controller's output interface removed what the Executor needs."""
        missing = [name for name in ("command", "command_args") if name not in values]
        if missing:
            left = ", ".join(name for name in values if not name.startswith("_")) or "nothing"
            raise FatalError(
                f"{title(self)}: the output interface of node Controller leaves no "
                f"{' and no '.join(missing)}, which the Executor needs; it leaves: {left}. "
                "Rename other names, or copy these instead"
            )

    def _continue_reply(self, coming: Advance, context: RoundContext) -> Advance | End:
        """Return the outcome that plays the next waiting calls of the same model reply.

        Returns:
            ``coming`` if no call waits. An ``End`` if the next call is ``finish``.
        """
        values = {**context.committed, **coming.values}
        waiting = values.get("_waiting")
        if not waiting:
            return coming
        taken = take(waiting)
        turns = (*coming.turns, *taken.refused)
        if taken.command is None:
            return replace(coming, turns=turns, values={**coming.values, "_waiting": []})
        left = {**coming.values, "_waiting": list(taken.waiting)}
        if taken.command.name == "finish":
            answer = {self.early_exit_key: True, **taken.command.args, "status": "finished"}
            state = {**values, **left, **answer}
            end = End(
                state.get("answer"),
                self._output(state),
                turns,
                {**left, **answer},
                coming.summary,
                coming.artifacts,
            )
            advance = replace(coming, turns=turns, values={**coming.values, "_waiting": []})
            return put_off(end, advance, taken.command if self.tells_errors else None, values)
        decided = {
            "command": taken.command.name,
            "command_args": dict(taken.command.args),
            "_said": dict(taken.command.extras),
        }
        decided |= _call_of(taken.command)
        return self._decided_together(
            replace(
                coming, node="Executor", turns=turns, values={**left, **decided}, ends_cycle=False
            ),
            context,
        )

    def prompt_for(
        self, node: str, context: RoundContext, tools: bool = True
    ) -> Mapping[str, Any] | None:
        """Return what the Controller's round sends to a model, or None for other nodes."""
        prompt = getattr(self.controller, "prompt_for", None)
        if node != "Controller" or self.decides() or not callable(prompt):
            return None
        held = context.committed.get(HELD)
        seen = self._seen(context if held is None else with_held(context, held))
        place = self._place(node)
        if place.reset:
            seen = altered(seen, history=EMPTY_HISTORY, remembered={})
        state = resolve(place.input_interface)(self.state_for(place, seen))
        full = self._with_commands(seen, str(state.get("node_goal") or ""))
        made: Mapping[str, Any] | None = prompt(full, tools)
        return made

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        """Return an estimate of what a round will spend from the run's budgets.

        The controller estimates a decision. A command with a limited number of calls counts as one.
        """
        if node == "Controller":
            estimate = getattr(self.controller, "estimate", None)
            return dict(estimate(self._with_commands(context))) if callable(estimate) else {}
        # Of calls that are carried out at once, only those that ended are charged.
        if context.committed.get(ONLY) or context.committed.get(TOGETHER):
            return {}
        limited = f"{COMMANDS}{context.committed.get('command')}"
        return {limited: 1.0} if node == "Executor" and limited in context.budgets else {}

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the end, with status ``unfinished``, of a run that has used up its cycles.

        Its answer is a fixed sentence.
        """
        answer = UNFINISHED_FLOW_ANSWER if self.decides() else UNFINISHED_ANSWER
        return End(answer, {"answer": answer, "status": "unfinished"})

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        also = [name for name in self.finish.input_args if name not in self.output_keys]
        return {name: state[name] for name in (*self.output_keys, *also) if name in state}

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return the retry policy of a round: its command's, completed by the node's and flow's."""
        policy = super().retry_of(node, values)
        parts = self.config.subflows_config
        node_retry = {"Controller": parts.Controller.retry, "Executor": parts.Executor.retry}.get(
            node
        )
        policy = node_retry.made().over(policy) if node_retry is not None else policy
        spec = self._command_of(node, values)
        return spec.retry.over(policy) if spec is not None and spec.retry is not None else policy

    def _command_of(self, node: str, values: Mapping[str, Any]) -> CommandSpec | None:
        """Return the one command that the next round of a node carries out, or None."""
        if node != "Executor" or values.get(TOGETHER):
            return None
        return self.offered().get(str(values.get("command")))

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """Return how many seconds a round may take: its command's own limit, else the flow's."""
        spec = self._command_of(node, values)
        return (
            spec.timeout
            if spec is not None and spec.timeout is not None
            else self.round_timeout_seconds
        )


def _command_of(decision: Any) -> Command:
    """Convert one of a list of decisions to a command.

    Raises:
        BadReply: it is none.
    """
    decision = read_reply(decision)
    if not isinstance(decision, Command):
        raise BadReply(
            f"a list of decisions must hold commands only; this is a {type(decision).__name__}"
        )
    return decision


def _decided(values: Mapping[str, Any]) -> Command:
    call_id, part = values.get("_call") or ("", 0)
    return Command(
        values["command"], values["command_args"], values.get("_said", {}), call_id, part
    )


def _call_of(command: Command) -> dict[str, Any]:
    return {"_call": [command.call, command.part] if command.call or command.part else None}
