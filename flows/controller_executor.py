"""ControllerExecutorFlow: one node decides the next command, the other carries it out, until an answer is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flows.branching import BranchingFlow, choose, told
from flows.calls import call
from flows.circular import CircularFlow, Node
from flows.commands import CommandSpec, commands_of
from flows.config import DESCRIPTION, ControllerExecutorConfig, FinishConfig, read_config
from flows.context import RoundContext
from flows.controllers import Controller
from flows.definition import check_count, known, title
from flows.errors import BadReply, FatalError, InvalidFlow
from flows.outcomes import Advance, Command, End, Finish, Interrupt, Outcome, Turn
from flows.replies import read_reply
from flows.summaries import shown, summary_of

#: The answer of a run that came to its last cycle without one.
UNFINISHED_ANSWER = "The maximum amount of rounds was reached before the model found an answer."


class ControllerExecutorFlow(CircularFlow):
    """A ring of two nodes, ``Controller`` and ``Executor``.

    Its own names in the state are ``command``, ``command_args``, ``observation``, ``answer`` (with the other arguments of ``finish``),
    ``status`` and the early exit; they cannot be remembered.

    Input ``goal``, output ``answer`` and ``status`` (``finished`` or ``unfinished``). Subclass it with ``decide``
    and ``@command`` methods, or construct it with ``controller``, ``commands`` and ``flow_config``. Keywords of the constructor
    win over ``flow_config``, which wins over class attributes.

    A command's exception becomes its observation (``{"error": "ValueError: its message"}``). A reply that names no
    command that can be carried out becomes a turn with such an observation; ``max_bad_replies`` in a row end the run errored.

    Attributes:
        controller: decides, unless the class defines ``decide``.
        commands: functions or ``CommandSpec`` objects, beside the methods marked ``@command``.
        flow_config: see ``ControllerExecutorConfig``.
        max_bad_replies: see above; at least 1.
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
    max_bad_replies: int = 3

    settings = (*CircularFlow.settings, "controller", "commands", "max_bad_replies")

    def __init__(self, *, flow_config: Mapping[str, Any] | ControllerExecutorConfig | None = None, **settings: Any) -> None:
        config = read_config(self.flow_config if flow_config is None else flow_config)
        self.flow_config = config
        given = {key: getattr(config, key) for key in config.model_fields_set - {"subflows_config", "topology"}}
        super().__init__(**{**given, **settings})

    def decide(self, context: RoundContext) -> Any:
        """The next decision, as ``Controller.decide``; override it, or give a controller."""
        if self.controller is None:
            raise InvalidFlow(f"{title(self)} has neither a controller nor a method decide")
        return self.controller.decide(context)

    def check_definition(self) -> None:
        """Also: somebody decides, no command is named finish or runs a shell unsaid, and the configuration names known ones."""
        own = type(self).decide is not ControllerExecutorFlow.decide
        if not own and not callable(getattr(self.controller, "decide", None)):
            raise InvalidFlow(f"{title(self)}: its controller is {self.controller!r}; expected a method decide, or controller=<Controller>")
        if "finish" in self.offered():
            raise InvalidFlow(f"{title(self)}: 'finish' is the command that ends the run; name yours otherwise")
        for spec in self.offered().values():
            if spec.runs_shell and not self.runs_shell:
                raise InvalidFlow(f"{title(self)}: {spec.name} runs what a controller writes; a flow that offers it says runs_shell: true")
        check_count(self.max_bad_replies, f"{title(self)}: max_bad_replies")
        super().check_definition()

    @property
    def missing(self) -> str | None:
        """What its controller lacks."""
        return getattr(self.controller, "missing", None)

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
        return {name: every[name].described(chosen[name].description) for name in chosen} if chosen else every

    def schemas(self) -> list[dict[str, Any]]:
        """What a controller may choose from, ``finish`` included, as models are told of tools."""
        return [*(spec.schema() for spec in self.offered().values()), self.finish.schema_of_command()]

    def choose_command(self, given: Mapping[str, Any], context: RoundContext) -> Command | Finish | Interrupt:
        """The Controller's round: decide, and check the decision. Raises BadReply."""
        told_all = replace(context, commands=self.schemas(), node_goal=str(given.get("node_goal") or ""))
        decision = read_reply(call(self.decide, told_all, told_all))
        if not isinstance(decision, Command):
            return decision
        try:
            if decision.name == "finish":
                self.finish.check(decision.args)
            else:
                choose(self.offered(), decision.name, decision.args, also=["finish"])
        except BadReply as error:
            error.command = decision
            raise
        return decision

    def carry_out(self, given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any] | Interrupt | Finish:
        """The Executor's round: carry out the command that was decided. Raises BadReply."""
        return BranchingFlow(list(self.offered().values()), tell_errors=True)(given, context)

    @property
    def reserved(self) -> frozenset[str]:
        """The names of the state that the flow itself writes."""
        return frozenset({"command", "command_args", "observation", "status", self.early_exit_key, *self.finish.input_args})

    def play(self, node: str, context: RoundContext) -> Outcome:
        """A bad reply, in whichever node it shows, goes back to the Controller as a turn of its own."""
        try:
            return super().play(node, replace(context, reserved=self.reserved))
        except BadReply as error:
            bad = context.committed.get("_bad_replies", 0) + 1
            if bad >= self.max_bad_replies:
                where = f"run {context.run_id}, step {context.step}"
                raise FatalError(f"{where}: {bad} bad replies of the controller in a row; the last one: {error}") from error
            command = _decided(context.committed) if node == "Executor" else error.command
            values = {**context.remembered, "_bad_replies": bad}
            return Advance("Controller", (Turn(command, told(error)),), values, ends_cycle=True, summary={"error": shown(str(error))})

    def state_for(self, place: Node, context: RoundContext) -> dict[str, Any]:
        """Also ``observation``: the history keeps it, so it is not written a second time as a value."""
        return {**super().state_for(place, context), "observation": context.observation}

    def output_of(self, place: Node, result: Any) -> dict[str, Any]:
        """Also: the command ``finish`` is an early exit, and what a reply says beside its command is kept."""
        if isinstance(result, Command) and result.name == "finish":
            return {self.early_exit_key: True, **result.args, "status": "finished", "_said": dict(result.extras)}
        output = super().output_of(place, result)
        return {**output, "_said": dict(result.extras)} if isinstance(result, Command) else output

    def settle(self, place: Node, context: RoundContext, output: Mapping[str, Any]) -> Advance | End:
        """Also: the Executor's round is a turn of the history, a good reply forgets the bad ones, and watchers get a summary."""
        values = dict(output)
        if place.name == "Controller":
            if context.committed.get("_bad_replies"):
                values["_bad_replies"] = 0
            outcome = super().settle(place, context, values)
            if isinstance(outcome, End):
                return replace(outcome, summary=summary_of(Command("finish", extras=values.get("_said", {})), answer=outcome.answer))
            return replace(outcome, summary=summary_of(_decided(values)))
        if place.name == "Executor":
            observation = values.pop("observation", None)
            command = _decided(context.committed)
            outcome = super().settle(place, context, values)
            summary = summary_of(replace(command, extras={}), observation=observation)
            return replace(outcome, turns=(Turn(command, observation),), summary=summary)
        return super().settle(place, context, values)

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """The run is completed, with the status ``unfinished`` and a sentence for an answer."""
        return End(UNFINISHED_ANSWER, {"answer": UNFINISHED_ANSWER, "status": "unfinished"})

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        also = [name for name in self.finish.input_args if name not in self.output_keys]
        return {name: state[name] for name in (*self.output_keys, *also) if name in state}

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """The command's own limit, where it has one, else the flow's."""
        spec = self.offered().get(str(values.get("command"))) if node == "Executor" else None
        return spec.timeout if spec is not None and spec.timeout is not None else self.round_timeout_seconds


def _decided(values: Mapping[str, Any]) -> Command:
    return Command(values["command"], values["command_args"], values.get("_said", {}))
