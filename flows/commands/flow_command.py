"""Commands that start another flow. They return the answer of the child run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, get_args

from perdure.flows.commands.approval import approval_of
from perdure.flows.commands.command import CommandSpec, Errors
from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import BadReply, InvalidFlow, InvalidInput, UnstorableValue
from perdure.flows.core.names import is_name
from perdure.flows.core.validation import check_count, check_limit, is_seconds
from perdure.flows.rounds import registry
from perdure.flows.rounds.children import OnFailure
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow

_GOAL = {"type": "string", "description": "What the other run is to do."}


def flow_command(
    name: str,
    *,
    flow: str,
    description: str = "",
    budgets: Mapping[str, float] | None = None,
    deadline: float | timedelta | str | None = None,
    max_rounds: int | None = None,
    labels: Mapping[str, str] | None = None,
    on_failure: OnFailure = "tell",
    max_concurrency: int | None = None,
    approval: Any = None,
    errors: Errors | None = None,
) -> CommandSpec:
    """Return a command that starts another flow.

    The command's arguments are ``goal`` and the inputs that the flow declares. Its result is the
    answer of the child run. The run that carries it out waits for the child run without a worker.
    If the child does not complete, a controller that reads errors observes ``{"error":
    "ChildFailed: ...", "run": its id}``.

    The flow is looked up when the command is used, so it may be registered later. A flow that only
    other workers have can be started too. Then the command accepts any inputs, and they are checked
    before the start.

    Args:
        name: the name by which a controller chooses it.
        flow: the name of the flow.
        description: a sentence for the controller. Default: the description of the flow.
        budgets, max_rounds, labels: as in ``Child``.
        deadline: how long the child may take: seconds, a timedelta, or a text like ``10m``.
        on_failure: ``tell``: the controller gets the failure. ``hold``: the run waits until a
            person has continued the child and it has completed.
        max_concurrency: how many of its calls run at a time, with ``parallel_calls``.
        approval, errors: as in ``command``.

    Raises:
        InvalidFlow: an option is not valid.
    """
    what = f"flow_command({name!r})"
    for text in (name, flow):
        if not isinstance(text, str) or not is_name(text):
            raise InvalidFlow(
                f"{what}: {text!r} is not a name; expected letters, digits, '_', '.' or '-', "
                "at most 100"
            )
    try:
        seconds = as_seconds(deadline)
        limits = None if budgets is None else check_budgets(budgets)
    except (ValueError, InvalidInput) as error:
        raise InvalidFlow(f"{what}: {error}") from error
    if seconds is not None and not is_seconds(seconds):
        raise InvalidFlow(f"{what}: deadline is {deadline!r}; expected seconds above 0, or None")
    if on_failure not in get_args(OnFailure):
        raise InvalidFlow(
            f"{what}: on_failure is {on_failure!r}; expected {' or '.join(get_args(OnFailure))}"
        )
    check_limit(max_rounds, f"{what}: max_rounds")
    if max_concurrency is not None:
        check_count(max_concurrency, f"{what}: max_concurrency")
    options = {
        "budgets": limits,
        "deadline": seconds,
        "max_rounds": max_rounds,
        "labels": dict(labels or {}),
        "on_failure": on_failure if on_failure != "tell" else None,
    }
    return CommandSpec(
        name,
        ChildStart(flow, {name: value for name, value in options.items() if value}),
        description,
        # A step starts its child once, however often it is carried out.
        idempotent=True,
        takes=FlowArguments(flow),
        approval=approval_of(approval),
        errors=errors,
        waits=True,
        max_concurrency=max_concurrency,
    )


@dataclass(frozen=True)
class ChildStart:
    """The function of a command that starts another flow.

    Attributes:
        flow: the name of the flow.
        options: further arguments of ``RoundContext.child``.
    """

    flow: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, goal: str, inputs: Mapping[str, Any], context: RoundContext) -> Any:
        """Start a child run, wait for it, and return its answer."""
        return context.child(self.flow, goal, inputs, **self.options)


@dataclass(frozen=True)
class FlowArguments:
    """The arguments of a command that starts a flow. They are ``goal`` and the flow's inputs."""

    flow: str
    wants_context: ClassVar[bool] = True

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Validate the arguments for a child run. ``what`` names the command in errors.

        Returns:
            The goal under ``goal``, and the other arguments under ``inputs``. If this process does
                not have the flow, the inputs are not validated.

        Raises:
            BadReply: ``goal`` is not a text, or the flow does not accept the inputs.
        """
        goal, inputs = args.get("goal"), dict(args)
        if not isinstance(goal, str):
            fault = f"goal: expected a text, got {type(goal).__name__}" if "goal" in args else ""
            raise BadReply(
                f"{what} does not accept these arguments: {fault or 'goal: it is missing'}. "
                f"It takes: {', '.join(self.schema()['properties'])}"
            )
        flow = _registered(self.flow)
        if flow is None or "goal" not in _inputs_of(flow).get("properties", {}):
            del inputs["goal"]
        if flow is None:
            return {"goal": goal, "inputs": inputs}
        if flow.Inputs is None and inputs:
            raise BadReply(
                f"{what} does not accept these arguments: {', '.join(inputs)}. It takes: goal"
            )
        try:
            flow.check_inputs(inputs)
        except (InvalidInput, UnstorableValue) as error:
            raise BadReply(f"{what} does not accept these arguments: {error}") from error
        return {"goal": goal, "inputs": inputs}

    def complete(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Return the arguments as JSON, with defaults filled in.

        The defaults are those of the flow's inputs. If this process does not have the flow, no
        default is filled in.

        Raises:
            BadReply: ``goal`` is not a text, or the flow does not accept the inputs.
        """
        checked = self.check(args, what)
        flow, inputs = _registered(self.flow), checked["inputs"]
        if flow is not None:
            inputs = flow.check_inputs(inputs)
        return {**inputs, "goal": checked["goal"]}

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments.

        They are ``goal``, and the inputs that the flow declares. If this process does not have the
        flow, the schema allows any inputs.
        """
        flow = _registered(self.flow)
        inputs: dict[str, Any] = (
            {"additionalProperties": True} if flow is None else _inputs_of(flow)
        )
        required = [name for name in inputs.get("required", ()) if name != "goal"]
        return {
            **{key: value for key, value in inputs.items() if key not in ("title", "description")},
            "type": "object",
            "properties": {"goal": _GOAL, **inputs.get("properties", {})},
            "required": ["goal", *required],
            "additionalProperties": inputs.get("additionalProperties", False),
        }

    @property
    def description(self) -> str:
        """The description of the started flow. Empty if this process does not have the flow."""
        flow = _registered(self.flow)
        return "" if flow is None else flow.description


def _inputs_of(flow: Flow) -> dict[str, Any]:
    return {} if flow.Inputs is None else flow.Inputs.model_json_schema()


def _registered(name: str) -> Flow | None:
    """Return the flow of this name. None if this process does not have it."""
    try:
        return registry.make(name)
    except registry.FlowNotFound:
        return None
