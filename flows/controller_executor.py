"""ControllerExecutorFlow: one node decides the next command, the other carries it out, until an answer is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flows.branching import BranchingFlow, choose, told
from flows.budgets import COMMANDS
from flows.calls import call
from flows.circular import CircularFlow, Node
from flows.commands import CommandSpec, Schemas, commands_of
from flows.config import APPROVERS, DESCRIPTION, ControllerExecutorConfig, FinishConfig, read_config
from flows.context import RoundContext, altered
from flows.controllers import Controller
from flows.definition import check_count, known, title
from flows.errors import BadReply, FatalError, InvalidFlow
from flows.extras import public, with_long_replies_apart
from flows.held_turns import HELD, amended, hold, kept_on, released, with_held
from flows.outcomes import Advance, Command, End, Finish, Interrupt, Outcome, Turn
from flows.replies import BAD_REPLIES, read_reply
from flows.results import MOST, bounded
from flows.retries import Retry
from flows.several import Taken, queued, take
from flows.summaries import digest, shown, summary_of
from flows.waiting import playing

#: The answer of a run that came to its last cycle without one.
UNFINISHED_ANSWER = "The maximum amount of rounds was reached before the model found an answer."
#: The same of a flow whose own code decides.
UNFINISHED_FLOW_ANSWER = "The maximum amount of rounds was reached before the flow found an answer."


class ControllerExecutorFlow(CircularFlow):
    """A ring of two nodes, ``Controller`` and ``Executor``.

    Its own names in the state are ``command``, ``command_args``, ``observation``, ``answer`` (with the other arguments of ``finish``),
    ``status`` and the early exit; they cannot be remembered.

    Input ``goal``, output ``answer`` and ``status`` (``finished`` or ``unfinished``). Subclass it with ``decide``
    and ``@command`` methods, or construct it with ``controller``, ``commands`` and ``flow_config``. Keywords of the constructor
    win over ``flow_config``, which wins over class attributes.

    Errors are for models, not for code. Where the controller reads errors (a model, a person), a command's exception becomes its
    observation (``{"error": "ValueError: its message"}``), and a reply that names no command that can be carried out becomes a turn with
    such an observation; ``max_bad_replies`` in a row end the run errored. With a coded ``decide`` the exception fails the round, which is
    tried again, and a bad reply ends the run errored at once. See docs/errors.md.

    ``max_rounds`` is 30 where a controller decides, and no limit where the class defines ``decide``.

    Attributes:
        controller: decides, unless the class defines ``decide``.
        commands: functions or ``CommandSpec`` objects, beside the methods marked ``@command``.
        flow_config: see ``ControllerExecutorConfig``.
        reads_errors: see above; None: as the controller says, and False where the class defines ``decide``.
        max_bad_replies: see above; at least 1.
        approvers: who may approve a command: ``anyone``, or ``others``: anyone but the person who submitted the run.
        max_result: characters of a command's result that go into the history; of a longer one the whole is kept as an artifact.
    """

    name: str = "CtrlEx"
    description: str = DESCRIPTION
    max_rounds: int | None = 30
    topology: Sequence[Node] = (
        Node("Controller", "choose_command", role="controller"),
        Node("Executor", "carry_out", input_interface="command_to_branch", output_interface="branch_to_observation"),
    )
    controller: Controller | None = None
    commands: Sequence[CommandSpec | Callable[..., Any]] = ()
    flow_config: Mapping[str, Any] | ControllerExecutorConfig = ControllerExecutorConfig()
    reads_errors: bool | None = None
    max_bad_replies: int = 3
    max_result: int = MOST
    approvers: str = "anyone"

    settings = (*CircularFlow.settings, "controller", "commands", "reads_errors", "max_bad_replies", "max_result", "approvers")

    def __init__(self, *, flow_config: Mapping[str, Any] | ControllerExecutorConfig | None = None, **settings: Any) -> None:
        config = read_config(self.flow_config if flow_config is None else flow_config)
        self.flow_config = config
        given = {key: getattr(config, key) for key in config.model_fields_set - {"subflows_config", "topology"}}
        super().__init__(**{**given, **settings})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove the default limit of cycles from a class that defines ``decide``: 30 cycles are a limit for models."""
        super().__init_subclass__(**kwargs)
        owner = next(base for base in cls.__mro__ if "max_rounds" in vars(base))
        if owner is ControllerExecutorFlow and cls.decides():
            cls.max_rounds = None

    @classmethod
    def decides(cls) -> bool:
        """Return whether the flow's own code decides, and no controller."""
        return cls.decide is not ControllerExecutorFlow.decide

    def decide(self, context: RoundContext) -> Any:
        """The next decision, as ``Controller.decide``; override it, or give a controller."""
        if self.controller is None:
            raise InvalidFlow(f"{title(self)} has neither a controller nor a method decide")
        return self.controller.decide(context)

    def check_definition(self) -> None:
        """Also: somebody decides, no command is named finish or runs a shell unsaid, and the configuration names known ones."""
        if not self.decides() and not callable(getattr(self.controller, "decide", None)):
            raise InvalidFlow(f"{title(self)}: its controller is {self.controller!r}; expected a method decide, or controller=<Controller>")
        if "finish" in self.offered():
            raise InvalidFlow(f"{title(self)}: 'finish' is the command that ends the run; name yours otherwise")
        for spec in self.offered().values():
            if spec.runs_shell and not self.runs_shell:
                raise InvalidFlow(f"{title(self)}: {spec.name} runs what a controller writes; a flow that offers it says runs_shell: true")
        check_count(self.max_bad_replies, f"{title(self)}: max_bad_replies")
        check_count(self.max_result, f"{title(self)}: max_result")
        if self.approvers not in APPROVERS:
            raise InvalidFlow(f"{title(self)}: approvers is {self.approvers!r}; expected one of {', '.join(map(repr, APPROVERS))}")
        super().check_definition()

    @property
    def missing(self) -> str | None:
        """Also what its controller, and its commands, need."""
        needing = [self.controller, *(spec.arguments for spec in self.offered().values())]
        return next((lacks for each in needing if (lacks := getattr(each, "missing", None))), None)

    @property
    def config(self) -> ControllerExecutorConfig:
        """The configuration, checked."""
        return read_config(self.flow_config)

    @property
    def finish(self) -> FinishConfig:
        """The command that ends the run."""
        return self.config.subflows_config.Controller.finish

    def offered(self) -> dict[str, CommandSpec]:
        """The commands by name, without ``finish``; raises InvalidFlow if the configuration names one that is not there."""
        every = commands_of(self, self.commands)
        chosen = self.config.subflows_config.Executor.chosen
        for name in chosen:
            if name not in every:
                raise InvalidFlow(f"{title(self)}: Executor.subflows_config names no command of it: {name!r}; {known(name, every)}")
        return {name: every[name].configured(chosen[name].said) for name in chosen} if chosen else every

    def schemas(self) -> list[dict[str, Any]]:
        """What a controller may choose from, ``finish`` included, as models are told of tools."""
        return [*(spec.schema() for spec in self.offered().values()), self.finish.schema_of_command()]

    def choose_command(self, given: Mapping[str, Any], context: RoundContext) -> Command | Finish | Interrupt | Taken | Turn:
        """The Controller's round: decide, and check the decision; of a list of calls, each. Raises BadReply."""
        full = self._told_all(context, str(given.get("node_goal") or ""))
        decided = call(self.decide, full, full)
        if isinstance(decided, list):
            return self._taken(decided)
        if isinstance(decided, Turn):
            return decided
        decision = read_reply(decided)
        return self._checked(decision) if isinstance(decision, Command) else decision

    def _told_all(self, context: RoundContext, node_goal: str = "") -> RoundContext:
        """The round as its controller sees it: also what there is to choose from."""
        return altered(context, commands=Schemas(self.schemas), node_goal=node_goal)

    def _checked(self, decision: Any) -> Command:
        """The decision, a command that this flow can carry out; raises BadReply."""
        decision = read_reply(decision)
        if not isinstance(decision, Command):
            raise BadReply(f"a list of decisions holds commands, and this is a {type(decision).__name__}")
        try:
            if decision.name == "finish":
                self.finish.check(decision.args)
            else:
                choose(self.offered(), decision.name, decision.args, also=["finish"])
        except BadReply as error:
            error.command = decision
            raise
        return decision

    @property
    def tells_errors(self) -> bool:
        """Whether errors are observations for whatever decides."""
        if self.reads_errors is not None:
            return self.reads_errors
        own = type(self).decide is not ControllerExecutorFlow.decide
        return not own and bool(getattr(self.controller, "reads_errors", False))

    def _taken(self, reply: list[Any]) -> Taken:
        calls = queued(reply, self._checked)
        fault = None if self.tells_errors else next((call["error"] for call in calls if "error" in call), None)
        if fault is not None:
            raise BadReply(fault)
        taken = take(calls)
        if taken.command is None:
            last = taken.refused[-1] if taken.refused else Turn(None, told(BadReply("the reply holds no call")))
            raise BadReply(str(last.observation["error"]).removeprefix("BadReply: "), last.command, taken.refused[:-1])
        return taken

    def carry_out(self, given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any] | Interrupt | Finish:
        """The Executor's round: carry out the command that was decided. Raises BadReply."""
        return BranchingFlow(list(self.offered().values()), tell_errors=self.tells_errors)(given, context)

    @property
    def reserved(self) -> frozenset[str]:
        """The names of the state that the flow itself writes."""
        return frozenset({"command", "command_args", "observation", "status", self.early_exit_key, *self.finish.input_args})

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Play a node; behind the Executor it sees, and may change, a turn that the history does not have yet."""
        held = context.committed.get(HELD)
        if held is None:
            return self._play(node, context)
        outcome = self._play(node, with_held(context, held))
        return outcome if isinstance(outcome, Interrupt) else self._with_held_turn(node, outcome, held, context)

    def _with_held_turn(self, node: str, outcome: Advance | End, held: Mapping[str, Any], context: RoundContext) -> Advance | End:
        """The outcome of a round that found a turn held: it goes on with it, or brings it into the history."""
        if node in ("Controller", "Executor"):  # an older worker played the nodes in between
            return released(outcome, held)
        now, outcome = amended(held, outcome, self.max_result, context.step)
        if isinstance(outcome, Advance) and not outcome.ends_cycle:
            return kept_on(outcome, now, held)
        outcome = released(outcome, now)
        return outcome if isinstance(outcome, End) else self._go_on(outcome, {**context.committed, **outcome.values})

    def _play(self, node: str, context: RoundContext) -> Outcome:
        """A bad reply, in whichever node it shows, goes back to a Controller that reads errors as a turn; of code it is fatal."""
        try:
            with playing(context.cancelled):
                outcome = self._by_whom(super().play(node, altered(context, reserved=self.reserved)))
            return outcome if node != "Controller" or isinstance(outcome, Interrupt) else with_long_replies_apart(outcome, context.step)
        except BadReply as error:
            where = f"run {context.run_id}, step {context.step}"
            if not self.tells_errors:
                raise FatalError(
                    f"{where}: {title(self)} decided what cannot be carried out: {error}. It is decided by code, so the run ends"
                ) from error
            bad = context.committed.get(BAD_REPLIES, 0) + 1
            if bad >= self.max_bad_replies:
                raise FatalError(f"{where}: {bad} bad replies of the controller in a row; the last one: {error}") from error
            values = {**context.remembered, BAD_REPLIES: bad}
            summary = {"error": shown(str(error))}
            if node == "Executor":
                turn = Turn(_decided(context.committed), told(error))
                coming = Advance("Controller", (turn,), values, ends_cycle=True, summary=summary)
                return self._go_on(coming, context.committed)
            turns = (*error.others, Turn(error.command, told(error)))
            return with_long_replies_apart(Advance("Controller", turns, values, ends_cycle=True, summary=summary), context.step)

    def _by_whom(self, outcome: Outcome) -> Outcome:
        """The outcome; of a question for an approval, with who may give it."""
        if self.approvers == "anyone" or not isinstance(outcome, Interrupt) or not isinstance(outcome.data, dict):
            return outcome
        about = outcome.data.get("approval")
        if not isinstance(about, dict):
            return outcome
        return replace(outcome, data={**outcome.data, "approval": {**about, "approvers": self.approvers}})

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """Also ``observation``: the history keeps it, so it is not written a second time as a value."""
        return {**super().state_for(place, context), "observation": context.observation}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """Also: the command ``finish`` is an early exit, and what a reply says beside its command is kept."""
        if isinstance(result, Turn):
            return {"_turn": result}
        if isinstance(result, Taken):
            assert result.command is not None  # a reply without one is a bad reply
            return {**self.output_of(place, result.command), "_refused": result.refused, "_waiting": list(result.waiting)}
        if isinstance(result, Command) and result.name == "finish":
            return {self.early_exit_key: True, **result.args, "status": "finished", "_said": public(result.extras)}
        output = super().output_of(place, result)
        return {**output, "_said": dict(result.extras), **_call_of(result)} if isinstance(result, Command) else output

    def settle(self, place: Node, context: RoundContext, output: Mapping[str, Any]) -> Advance | End:
        """Also: the Executor's round is a turn of the history, a good reply forgets the bad ones, and watchers get a summary."""
        values = dict(output)
        if place.name == "Controller":
            if context.committed.get(BAD_REPLIES):
                values[BAD_REPLIES] = 0
            if "_turn" in values:
                turn = values.pop("_turn")
                summary = summary_of(turn.command or Command(""), observation=turn.observation)
                return Advance("Controller", (turn,), {**context.remembered, **values}, ends_cycle=True, summary=summary)
            refused: tuple[Turn, ...] = values.pop("_refused", ())
            for name in ("_waiting", "_call"):  # written where there is one, and where one of an earlier reply would be left over
                if not values.get(name) and not context.committed.get(name):
                    values.pop(name, None)
            outcome = replace(super().settle(place, context, values), turns=refused)
            if isinstance(outcome, Advance):
                self._check_decided(values)
            if isinstance(outcome, End):
                return replace(outcome, summary=summary_of(Command("finish", extras=values.get("_said", {})), answer=outcome.answer))
            return replace(outcome, summary=summary_of(_decided(values)))
        if place.name == "Executor":
            command = _decided(context.committed)
            observation, artifacts = bounded(values.pop("observation", None), self.max_result, f"{context.step}-{command.name}")
            outcome = super().settle(place, context, values)
            summary = summary_of(replace(command, extras={}), observation=observation, digest=digest(observation))
            if isinstance(outcome, Advance) and not outcome.ends_cycle:  # nodes follow that may change what was observed
                held = {**outcome.values, HELD: hold(command, observation, artifacts)}
                return replace(outcome, values=held, summary=summary_of(replace(command, extras={})), artifacts=artifacts)
            outcome = replace(outcome, turns=(Turn(command, observation),), summary=summary, artifacts=artifacts)
            return outcome if isinstance(outcome, End) else self._go_on(outcome, {**context.committed, **values})
        if "observation" in values and context.committed.get(HELD) is None:
            self._check_observes(place, context)
            del values["observation"]
        return super().settle(place, context, values)

    def _check_observes(self, place: Node, context: RoundContext) -> None:
        """Raise FatalError for a node that returns an observation where the controller could never see it."""
        names = [node.name for node in self.topology]
        if names.index(place.name) < names.index("Executor"):
            raise FatalError(
                f"{title(self)}: node {place.name} returned 'observation'; only nodes behind the Executor, in the same cycle, change "
                "what was observed. Put it there, or return another name"
            )
        # The turn was written by a worker of an earlier release; it stays as it is.
        context.logger.warning(
            "run %s, step %d: its turn is in the history already; node %s changes it from the next cycle on",
            context.run_id,
            context.step,
            place.name,
        )

    def _check_decided(self, values: Mapping[str, Any]) -> None:
        """Raise FatalError where the Controller's output interface took away what the Executor carries out."""
        missing = [name for name in ("command", "command_args") if name not in values]
        if missing:
            left = ", ".join(name for name in values if not name.startswith("_")) or "nothing"
            raise FatalError(
                f"{title(self)}: the output interface of node Controller leaves no {' and no '.join(missing)}, which the Executor carries "
                f"out; it leaves: {left}. Rename other names, or copy these instead"
            )

    def _go_on(self, coming: Advance, values: Mapping[str, Any]) -> Advance | End:
        """The next call of the same reply, where one waits; else what comes after the Executor."""
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
            return End(state.get("answer"), self._output(state), turns, {**left, **answer}, coming.summary, coming.artifacts)
        decided = {"command": taken.command.name, "command_args": dict(taken.command.args), "_said": dict(taken.command.extras)}
        decided |= _call_of(taken.command)
        return replace(coming, node="Executor", turns=turns, values={**left, **decided}, ends_cycle=False)

    def estimate(self, node: str, context: RoundContext) -> Mapping[str, float]:
        """Also: the controller knows what a decision costs; a command whose number is limited, that it is carried out once."""
        if node == "Controller":
            estimate = getattr(self.controller, "estimate", None)
            return dict(estimate(self._told_all(context))) if callable(estimate) else {}
        limited = f"{COMMANDS}{context.committed.get('command')}"
        return {limited: 1.0} if node == "Executor" and limited in context.budgets else {}

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """The run is completed, with the status ``unfinished`` and a sentence for an answer."""
        answer = UNFINISHED_FLOW_ANSWER if self.decides() else UNFINISHED_ANSWER
        return End(answer, {"answer": answer, "status": "unfinished"})

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        also = [name for name in self.finish.input_args if name not in self.output_keys]
        return {name: state[name] for name in (*self.output_keys, *also) if name in state}

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """The command's own policy over the node's and the flow's."""
        less = super().retry_of(node, values)
        parts = self.config.subflows_config
        said = {"Controller": parts.Controller.retry, "Executor": parts.Executor.retry}.get(node)
        less = said.made().over(less) if said is not None else less
        spec = self.offered().get(str(values.get("command"))) if node == "Executor" else None
        return spec.retry.over(less) if spec is not None and spec.retry is not None else less

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """The command's own limit, where it has one, else the flow's."""
        spec = self.offered().get(str(values.get("command"))) if node == "Executor" else None
        return spec.timeout if spec is not None and spec.timeout is not None else self.round_timeout_seconds


def _decided(values: Mapping[str, Any]) -> Command:
    call_id, part = values.get("_call") or ("", 0)
    return Command(values["command"], values["command_args"], values.get("_said", {}), call_id, part)


def _call_of(command: Command) -> dict[str, Any]:
    return {"_call": [command.call, command.part] if command.call or command.part else None}
