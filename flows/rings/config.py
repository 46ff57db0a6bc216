"""The configuration of a ControllerExecutorFlow as validated data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from perdure.flows.commands.command import CommandSpec
from perdure.flows.commands.flow_command import flow_command
from perdure.flows.commands.options import CommandOptions, RetryConfig, StrictModel
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import BadReply, InvalidFlow
from perdure.flows.core.names import suggest
from perdure.flows.core.summaries import MOST

if TYPE_CHECKING:
    from perdure.flows.executors.sandbox import Sandbox

#: Values of ``approvers``: everyone, or everyone except the person who submitted the run.
APPROVERS = ("anyone", "others")
DESCRIPTION = (
    "ControllerExecutor (i.e., MRKL, ReAct) interaction implementation with Flows that "
    "approaches the problem solving in two phases: "
    "one Flow chooses the next step and another Flow executes it. "
    "This is repeated until the controller Flow concludes on an answer."
)
FINISH_DESCRIPTION = (
    "Signal that the objective has been satisfied, and returns the answer to the user."
)


class FinishConfig(StrictModel):
    """The configuration of ``finish``, the command with which a controller ends the run.

    Its arguments are validated like the arguments of any other command.
    """

    description: str = FINISH_DESCRIPTION
    input_args: list[str] = Field(default=["answer"])

    @field_validator("input_args")
    @classmethod
    def _has_answer(cls, names: list[str]) -> list[str]:
        if "answer" not in names or len(set(names)) < len(names):
            raise ValueError("expected different names, 'answer' among them")
        return names

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the arguments of the command ``finish``, and return them.

        Raises:
            BadReply: the names of the arguments are not exactly ``input_args``.
        """
        missing = [name for name in self.input_args if name not in args]
        unknown = sorted(set(args) - set(self.input_args))
        if missing or unknown:
            faults = [f"missing: {', '.join(missing)}"] * bool(missing) + [
                f"unknown: {', '.join(unknown)}"
            ] * bool(unknown)
            raise BadReply(
                f"command 'finish' does not accept these arguments: {'; '.join(faults)}. "
                f"It takes: {', '.join(self.input_args)}"
            )
        return dict(args)

    def schema_of_command(self, answer: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the command ``finish`` as a tool definition for models.

        The definition has the form of ``CommandSpec.schema``.

        Args:
            answer: the JSON schema of the answer. None accepts any answer.
        """
        properties: dict[str, Any] = {name: {} for name in self.input_args}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": self.input_args,
            "additionalProperties": False,
        }
        if answer is not None:
            # References in a schema begin at its root, so the definitions move there.
            own = {name: part for name, part in answer.items() if name != "$defs"}
            properties["answer"] = own
            parameters |= {name: part for name, part in answer.items() if name == "$defs"}
        return {"name": "finish", "description": self.description, "parameters": parameters}


class ControllerConfig(StrictModel):
    """The section ``Controller`` of a flow's configuration.

    In a YAML file, the section also has the settings of the controller that the file names.
    """

    model_config = ConfigDict(extra="allow")
    finish: FinishConfig = FinishConfig()
    retry: RetryConfig | None = None


class ContainerConfig(StrictModel):
    """A container in which ``run_shell`` runs. See ``perdure.flows.executors.container``."""

    image: str
    runtime: Literal["docker", "podman"] = "docker"
    network: bool | str = False
    memory: str | None = "512m"
    cpus: float | None = None
    processes: int = 256
    temporary: str = "64m"
    read_only: bool = True
    user: str | None = None
    environment: dict[str, str] = Field(default={})
    options: list[str] = Field(default=[])

    @field_validator("*")
    @classmethod
    def _is_valid_part(cls, value: Any, info: ValidationInfo) -> Any:
        # Each key by itself, so that all faults are reported, each at its line.
        from perdure.flows.executors.container import Container

        try:
            Container(**{"image": "image", str(info.field_name): value})
        except InvalidFlow as error:
            raise ValueError(str(error).removeprefix("Container: ")) from error
        return value

    def made(self) -> Sandbox:
        """Create the container that this configuration describes."""
        from perdure.flows.executors.container import Container

        values = {name: getattr(self, name) for name in type(self).model_fields}
        return Container(**{**values, "options": tuple(self.options)})


#: Keys of a command that is a flow.
_OF_CHILD = ("budgets", "deadline", "max_rounds", "labels", "on_failure")


class CommandConfig(CommandOptions):
    """The configuration of one command.

    If it has the key ``flow``, the command starts a run of that flow (``flow_command``). The key
    ``sandbox`` is for the command ``run_shell``.
    """

    flow: str | None = None
    sandbox: ContainerConfig | None = None
    budgets: dict[str, float] | None = None
    deadline: Annotated[float | None, BeforeValidator(as_seconds)] = Field(
        default=None, gt=0, allow_inf_nan=False
    )
    max_rounds: int | None = Field(default=None, ge=1)
    labels: dict[str, str] | None = None
    on_failure: Literal["tell", "hold"] | None = None

    @model_validator(mode="after")
    def _belongs_to_flow(self) -> CommandConfig:
        others = [name for name in _OF_CHILD if getattr(self, name) is not None]
        if others and self.flow is None:
            raise ValueError(f"only a command with the key flow can have {', '.join(others)}")
        return self

    @property
    def said(self) -> dict[str, Any]:
        """The options that the configuration sets, for ``CommandSpec.configured``.

        The container of ``sandbox`` is one of them.
        """
        sandbox = {} if self.sandbox is None else {"sandbox": self.sandbox.made()}
        return {**super().said, **sandbox}

    def flow_command(self, name: str) -> CommandSpec | None:
        """Return the command that starts a run of the configuration's flow.

        None if the configuration names no flow.

        Raises:
            InvalidFlow: an option is not valid.
        """
        if self.flow is None:
            return None
        keys = [key for key in _OF_CHILD if getattr(self, key) is not None]
        options: dict[str, Any] = {key: getattr(self, key) for key in keys}
        return flow_command(name, flow=self.flow, **options)


class ExecutorConfig(StrictModel):
    """The section ``Executor``: the offered commands.

    If it names no command, all commands of the flow are offered.
    """

    subflows_config: dict[str, CommandConfig] | list[str] = Field(default=[])
    retry: RetryConfig | None = None

    @property
    def chosen(self) -> Mapping[str, CommandConfig]:
        """The offered commands by name, with the settings of each."""
        named = self.subflows_config
        return named if isinstance(named, dict) else {name: CommandConfig() for name in named}


class SubflowsConfig(StrictModel):
    """The sections ``Controller`` and ``Executor`` of a flow's configuration."""

    Controller: ControllerConfig = ControllerConfig()
    Executor: ExecutorConfig = ExecutorConfig()


class ControllerExecutorConfig(StrictModel):
    """The whole configuration of a flow. A key that is not set leaves the flow's own setting."""

    name: str = "CtrlEx"
    description: str = DESCRIPTION
    max_rounds: int | None = Field(default=30, ge=1)
    subflows_config: SubflowsConfig = SubflowsConfig()
    early_exit_key: str = "EARLY_EXIT"
    topology: Literal["circular"] = "circular"
    max_bad_replies: int = Field(default=3, ge=1)
    approvers: Literal["anyone", "others"] = "anyone"
    max_result: int = Field(default=MOST, ge=1)
    parallel_calls: int = Field(default=1, ge=1)
    interrupt_before: list[str] = Field(default=[])
    interrupt_after: list[str] = Field(default=[])


def read_config(data: Mapping[str, Any] | ControllerExecutorConfig) -> ControllerExecutorConfig:
    """Validate the configuration of a ``ControllerExecutorFlow``, and return its model.

    A ``ControllerExecutorConfig`` is returned unchanged.

    Raises:
        InvalidFlow: a key is unknown or wrong. The message names each such key.
    """
    if isinstance(data, ControllerExecutorConfig):
        return data
    try:
        config = ControllerExecutorConfig.model_validate(dict(data))
    except ValidationError as error:
        raise InvalidFlow(
            "flow_config: " + "; ".join(_fault(fault) for fault in error.errors())
        ) from error
    # Otherwise it was read from a file, which may hold the settings of the controller it names.
    if isinstance(data.get("subflows_config"), Mapping):
        _check_controller(config.subflows_config.Controller)
    return config


def _check_controller(config: ControllerConfig) -> None:
    """Raise InvalidFlow if a controller's configuration in Python has unknown keys.

    In Python the controller is an object with settings of its own, so nothing would read such keys.
    """
    unknown = sorted(config.model_extra or {})
    if unknown:
        faults = [
            f"unknown key subflows_config.Controller.{key}; "
            f"{suggest(key, ControllerConfig.model_fields)}"
            for key in unknown
        ]
        raise InvalidFlow(
            f"flow_config: {'; '.join(faults)}. Pass settings of the controller itself to "
            "its constructor (controller=...)"
        )


def _fault(fault: Any) -> str:
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        return f"{path}: {fault['msg']}, not {fault['input']!r}"
    model: type[BaseModel] = ControllerExecutorConfig
    for part in fault["loc"][:-1]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else CommandConfig
    return f"unknown key {path}; {suggest(fault['loc'][-1], model.model_fields)}"
