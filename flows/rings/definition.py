"""The definition of a ControllerExecutorFlow: its settings, its commands, the retry of its rounds.

Other modules of this package run the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from perdure.flows.commands.command import CommandSpec, commands_of, lacks_of, parts_of
from perdure.flows.commands.controller import Controller
from perdure.flows.core.budgets import check_commands
from perdure.flows.core.errors import InvalidFlow, InvalidInput
from perdure.flows.core.names import suggest
from perdure.flows.core.retry import Retry
from perdure.flows.core.summaries import MOST
from perdure.flows.core.validation import check_count
from perdure.flows.rings.circular import CircularFlow, Node
from perdure.flows.rings.config import (
    APPROVERS,
    DESCRIPTION,
    ControllerExecutorConfig,
    FinishConfig,
    read_config,
)
from perdure.flows.rings.parallel_calls import TOGETHER, fault_of_ring
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import title


@cache
def _reserved(*names: str) -> frozenset[str]:
    return frozenset(("command", "command_args", "observation", "status", *names))


@cache
def _in_order(names: frozenset[str]) -> Sequence[str]:
    return tuple(sorted(names))


class ControllerExecutorDefinition(CircularFlow):
    """The settings and commands of a ControllerExecutorFlow. That class describes them."""

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
    reads_messages = True
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
        """Create the flow from ``flow_config``. Keywords override its settings.

        Args:
            flow_config: None stands for the class attribute ``flow_config``.

        Raises:
            InvalidFlow: a key or setting is unknown, or the definition contradicts itself.
        """
        config = read_config(self.flow_config if flow_config is None else flow_config)
        self.flow_config = config
        configured = {
            key: getattr(config, key)
            for key in config.model_fields_set - {"subflows_config", "topology"}
        }
        super().__init__(**{**configured, **settings})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove the default cycle limit if a class defines ``decide``.

        The limit of 30 cycles is meant for models.
        """
        super().__init_subclass__(**kwargs)
        owner = next(base for base in cls.__mro__ if "max_rounds" in vars(base))
        if owner is ControllerExecutorDefinition and cls.decides():
            cls.max_rounds = None

    @classmethod
    def decides(cls) -> bool:
        """Return whether the flow's own ``decide`` chooses the commands, not a controller."""
        return cls.decide is not ControllerExecutorDefinition.decide

    def decide(self, context: RoundContext) -> Any:
        """Return the next decision of the run, such as a command.

        By default the flow's controller decides. Override this method, or pass a controller.

        Raises:
            InvalidFlow: the flow has no controller.
        """
        if self.controller is None:
            raise InvalidFlow(
                f"{title(self)} has neither a controller nor a method decide; "
                "pass controller=<Controller>"
            )
        return self.controller.decide(context)

    def check_definition(self) -> None:
        """Raise InvalidFlow if the controller, commands or settings are invalid.

        Raises:
            InvalidFlow: no controller and no ``decide``, a command is named ``finish``, a command
                runs a shell that the flow does not declare, or the configuration names an unknown
                command.
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
        """Raise InvalidFlow if the approval rule of ``command`` names an unknown argument.

        A command that accepts any arguments, as some tools of MCP servers do, is not checked.

        Args:
            arguments: the arguments that the rule names.
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
        """The commands for which runs can have a budget ``commands.NAME``."""
        return list(self.offered())

    @property
    def allowed_models(self) -> Sequence[str]:
        """The controller's models that a submission can choose from."""
        return tuple(getattr(self.controller, "allowed_models", ()))

    @property
    def fork_nodes(self) -> Sequence[str]:
        """The Controller. When its round begins, no call of an earlier reply waits."""
        return ("Controller",)

    @property
    def own_values(self) -> Sequence[str]:
        """The names of the values that the flow itself writes. A fork does not copy them."""
        return _in_order(self.reserved)

    @property
    def reserved(self) -> frozenset[str]:
        """The value names that the flow itself writes. Nodes cannot remember them."""
        return _reserved(self.early_exit_key, *self.finish.input_args)

    @property
    def missing(self) -> str | None:
        """A sentence about the first missing dependency of controller or commands.

        None if none is missing.
        """
        return lacks_of([self.controller, *parts_of(self.offered().values())])

    @property
    def config(self) -> ControllerExecutorConfig:
        """The validated configuration of the flow."""
        return read_config(self.flow_config)

    @property
    def finish(self) -> FinishConfig:
        """The configuration of ``finish``, which ends the run."""
        return self.config.subflows_config.Controller.finish

    @property
    def tells_errors(self) -> bool:
        """Whether a command's exception becomes an observation. Otherwise it fails the round.

        ``reads_errors`` decides if it is set. Otherwise the controller decides. If the class
        defines ``decide``, the result is False.
        """
        if self.reads_errors is not None:
            return self.reads_errors
        own = type(self).decide is not ControllerExecutorDefinition.decide
        return not own and bool(getattr(self.controller, "reads_errors", False))

    def offered(self) -> dict[str, CommandSpec]:
        """Return the controller's commands by name, without ``finish``.

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
        """Return the commands and ``finish`` as tool definitions for models."""
        answers = self.answer_type()
        return [
            *(spec.schema() for spec in self.offered().values()),
            self.finish.schema_of_command(None if answers is None else answers.schema),
        ]

    def _output(self, state: Mapping[str, Any]) -> dict[str, Any]:
        also = [name for name in self.finish.input_args if name not in self.output_keys]
        return {name: state[name] for name in (*self.output_keys, *also) if name in state}

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return the retry policy of a node's next round.

        The command's policy comes first, then the policies of the node and of the flow. Each
        supplies the settings that the policies before it lack.

        Returns:
            None if none of them has a policy.
        """
        policy = super().retry_of(node, values)
        parts = self.config.subflows_config
        node_retry = {"Controller": parts.Controller.retry, "Executor": parts.Executor.retry}.get(
            node
        )
        policy = node_retry.made().over(policy) if node_retry is not None else policy
        spec = self._command_of(node, values)
        return spec.retry.over(policy) if spec is not None and spec.retry is not None else policy

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """Return the time limit of a node's next round in seconds. None for no limit.

        It is the limit of the command in ``values``, else that of the flow.
        """
        spec = self._command_of(node, values)
        return (
            spec.timeout
            if spec is not None and spec.timeout is not None
            else self.round_timeout_seconds
        )

    def _command_of(self, node: str, values: Mapping[str, Any]) -> CommandSpec | None:
        """Return the command of a node's next round.

        None if the round carries out no command, or several commands.
        """
        if node != "Executor" or values.get(TOGETHER):
            return None
        return self.offered().get(str(values.get("command")))
