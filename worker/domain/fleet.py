"""Snapshots of the fleet: workers, announced flows, queues, and one run.

From a worker's announcement of a flow, a client without the flow's code can submit runs of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Required, TypeVar, cast

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.names import Role
from perdure.worker.domain.document import CLOSED, OPEN, Document, Flag, MaybeText, absent
from perdure.worker.domain.input_schema import faults_of

if TYPE_CHECKING:
    from perdure.flows.rounds.flow import Flow


@dataclass(frozen=True)
class QueueInfo(Document):
    """State of the broker's queues for the rounds of one role.

    They are the role's own queue, and a queue for each flow set of the role. The workers of a flow
    set play exactly the same flows.
    """

    _later: ClassVar[tuple[str, ...]] = ("handed_on",)

    role: Role
    """Role whose rounds wait in the queues."""
    name: str
    """The broker's name of the role's queue."""
    length: int | None
    """Number of messages in the role's queues. Not set if the broker does not answer."""
    pushed: int
    """Sequence number of the newest message that was pushed."""
    taken: int
    """Sequence number of the newest message whose round was claimed."""
    oldest: float | None = None
    """Seconds that the run of a queue's next message has waited: the longest time of these queues.

    Not set if the queues are empty or the time cannot be determined.
    """
    handed_on: int | None = None
    """Number of messages in the queues of flow sets, as a part of ``length``.

    A worker that could not play the run's round moved them there. Only workers of the flow set take
    them. Not set if the broker does not answer, or if an older server reports the queue.
    """


@with_config(CLOSED)
class DeadLetter(TypedDict):
    """A message that workers refused."""

    at: float
    """When it was refused, in seconds since 1970."""
    list: str
    """The queue that it came from."""
    why: str
    """Why it was refused."""
    bytes: int
    """Its size."""
    message: str
    """The beginning of the message."""


@with_config(CLOSED)
class FlowPause(TypedDict):
    """A paused flow: no round of its runs starts."""

    at: datetime
    """When it was paused."""
    by: str | None
    """Who paused it."""
    reason: str | None
    """Why it was paused."""


@with_config(OPEN)
class FlowInfo(TypedDict, total=False):
    """A flow that this client or a live worker knows.

    A worker of another version may describe it with more or fewer fields.
    """

    description: MaybeText
    first: Required[str]
    """The node that a run begins with."""
    nodes: Required[dict[str, str]]
    """Each node's role: ``controller`` or ``executor``."""
    max_rounds: int | None
    interrupt_before: list[str]
    interrupt_after: list[str]
    lease_seconds: float | None
    round_timeout_seconds: float | None
    needs_goal: Annotated[bool, absent(True)]
    """Whether a submission has to name a goal."""
    reads_messages: bool
    """Whether the flow's controller or agent reads messages to its runs."""
    runs_shell: Flag
    """Whether the flow runs shell commands of the user who submits it.

    Workers run such a flow only if it is enabled for them.
    """
    expose: list[str]
    """The protocols of other clients through which runs may be started: ``mcp``, ``openai``."""
    shipped: Flag
    """Whether the flow comes with Perdure."""
    budgets: dict[str, float]
    commands: list[str]
    """The commands that a budget ``commands.NAME`` can limit."""
    allowed_models: list[str]
    """The models of which a submission may choose one. Not set: none."""
    fork_nodes: list[str]
    """The nodes at which a fork of a run can begin. Not set: its runs cannot be forked."""
    own_values: list[str]
    """The values that the flow writes itself, and that a fork begins without."""
    missing: list[str]
    """What the server lacks to run the flow."""
    inputs: Required[dict[str, Any] | None]
    """The JSON Schema of the flow's inputs. Not set: inputs are not validated."""
    answer: dict[str, Any] | None
    """The JSON Schema of the flow's answers. Not set: an answer may be any JSON."""
    workers: Required[list[str]]
    """The live workers that run this flow."""


@with_config(OPEN)
class WorkerStatus(TypedDict, total=False):
    """A worker that registered recently, with the data that it announced."""

    name: Required[str]
    silent: Required[float]
    """Seconds since its last heartbeat."""
    alive: Required[bool]
    role: MaybeText
    pool: MaybeText
    concurrency: Annotated[int, absent(0)]
    rounds: Annotated[int, absent(0)]
    """Number of rounds that it runs now."""
    draining: Flag
    """Whether the worker is shutting down and takes no more rounds."""
    holds: list[str]
    """The ids of the runs whose rounds the worker runs now, up to 50.

    A caller over HTTP who may see only their own runs gets only the ids of their own runs.
    """
    host: MaybeText
    """The machine that it runs on."""
    pid: int | None
    """Id of the process that announces the worker. With a pool of processes, it is their parent."""
    version: MaybeText
    """Its version of Perdure. Not set: a version that does not announce it."""
    started: float | None
    """When it started, in seconds since 1970."""
    memory: int | None
    """Bytes of memory that it has in use, with the processes of its pool."""
    durability: Annotated[str, absent("strict")]
    """``relaxed``: the worker accepts a server that may lose runs."""
    flows: dict[str, Any]
    builds: dict[str, str]
    """The build of each flow. It differs between two workers whose code of the flow differs.

    Not set: a version that does not announce it.
    """


#: Heartbeats after which a silent worker no longer counts as alive.
ALIVE_BEATS = 10


@dataclass(frozen=True)
class WorkerInfo:
    """A worker with the data that it announced.

    Attributes:
        name: The name of the worker process.
        beat: The time of its last heartbeat, in ms of the state server's clock.
        info: The announced data.
    """

    name: str
    beat: float
    info: Mapping[str, Any] = field(default_factory=dict)

    def silence(self, now: float) -> float:
        """Return the seconds since the worker's last heartbeat, at ``now`` (ms)."""
        return max(0.0, (now - self.beat) / 1000)

    def is_alive(self, now: float, heartbeat_seconds: float) -> bool:
        """Return whether the worker counts as alive.

        Its last heartbeat must be at most ``ALIVE_BEATS`` times ``heartbeat_seconds`` old at
        ``now`` (ms).
        """
        return self.silence(now) <= ALIVE_BEATS * heartbeat_seconds

    def status(self, now: float, heartbeat_seconds: float) -> WorkerStatus:
        """Return the worker as clients see it. ``now`` is in ms.

        The result has its announced data, its silence, and whether it is alive.
        """
        return cast(
            WorkerStatus,
            {
                "name": self.name,
                "silent": self.silence(now),
                "alive": self.is_alive(now, heartbeat_seconds),
                **self.info,
            },
        )

    @property
    def started(self) -> float:
        """The time when the worker started, in ms by the worker's clock.

        For a worker of a version that does not announce this, it is the time of its last heartbeat.
        """
        value = self.info.get("started")
        return 1000 * value if isinstance(value, int | float) else self.beat

    @property
    def role(self) -> str:
        """The worker's role: ``controller``, ``executor`` or ``all``. ``None`` if not announced."""
        return str(self.info.get("role"))

    def count(self, name: str) -> int:
        """Return the announced whole number ``name``. 0 if there is none."""
        value = self.info.get(name)
        return value if isinstance(value, int) else 0

    def plays(self, role: str) -> bool:
        """Return whether the worker claims rounds of this role.

        False for a worker that is shutting down (draining).
        """
        return self.info.get("role") in (role, "all") and not self.info.get("draining")

    def knows(self, flow: str) -> bool:
        """Return whether the worker announced that it runs this flow."""
        return flow in self.info.get("flows", {})

    def lacks(self, flow: str) -> str | None:
        """Return why the worker cannot run a flow, as a sentence.

        None if it announced no such reason.
        """
        lacking = self.info.get("lacking")
        return str(lacking[flow]) if isinstance(lacking, dict) and flow in lacking else None

    def queues_of_sets(self, queue: str) -> list[str]:
        """Return the worker's queues of flow sets for one role.

        Args:
            queue: The name of the role's queue. The returned names begin with it and a dot.
        """
        announced = self.info.get("lists")
        return [
            name
            for name in (announced if isinstance(announced, list) else ())
            if isinstance(name, str) and name.startswith(f"{queue}.")
        ]

    def refuses(self, flow: str) -> bool:
        """Return whether the worker has this flow, but not enabled."""
        return flow in self.info.get("disabled", ())


@dataclass(frozen=True)
class RunSnapshot:
    """One read of a run, its queue, its children and the workers.

    Times are in ms of the state server's clock.

    Attributes:
        fields: The run's hash.
        now: The time of the read.
        due: When the sweeper checks the run next. None if the run is not in the due set.
        queues: The hash with facts about all queues: ``LIST:pushed``, ``LIST:cursor``, the time of
            the last sweep, and begin and end of the last period without sweeps.
        length: Length of the queue with the run's message. None if the broker does not answer.
        place: Position of the run's message in that queue. The message that is consumed next has
            position 1. None if the message is not among the first ones of the queue.
        workers: All workers that have announced themselves recently.
        groups: The groups of children that the run waits for, each with its counters.
        asking: Ids of children that wait for a person.
        held: Ids and statuses of children that did not succeed and that a person has to continue.
        damage: The damaged key or field that makes every script refuse the run. Only ``fields`` was
            read then. None if nothing is damaged.
        paused: Who paused the run's flow, when and why (JSON). None if the flow is not paused.
    """

    fields: Mapping[str, str]
    now: int
    due: float | None = None
    queues: Mapping[str, str] = field(default_factory=dict)
    length: int | None = 0
    place: int | None = None
    workers: Sequence[WorkerInfo] = ()
    paused: str | None = None
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    asking: Sequence[str] = ()
    held: Sequence[tuple[str, str]] = ()
    damage: str | None = None


#: Flows that only serve other flows, as their child runs. Workers run them, and lists for people
#: leave them out. (The constant of ``perdure.flows.workflows`` would import all of workflows.)
HELPERS = frozenset({"workflow-question"})
#: A described flow, with any further members.
Shown = TypeVar("Shown", bound=Mapping[str, Any])


def describe(flow: Flow) -> dict[str, Any]:
    """Return a flow's description as JSON data, which workers announce."""
    from perdure.flows.rounds import registry  # It imports Flow: snapshots of a fleet need none.

    return {
        "description": flow.description,
        "first": flow.first_node,
        "nodes": dict(flow.nodes),
        "max_rounds": flow.max_rounds,
        "interrupt_before": list(flow.interrupt_before),
        "interrupt_after": list(flow.interrupt_after),
        "lease_seconds": flow.lease_seconds,
        "round_timeout_seconds": flow.round_timeout_seconds,
        **({} if flow.needs_goal else {"needs_goal": False}),
        "reads_messages": flow.reads_messages,
        "runs_shell": flow.runs_shell,
        "expose": list(flow.expose),
        "shipped": registry.is_shipped(flow.name),
        "budgets": dict(flow.budgets),
        "missing": [flow.missing] if flow.missing else [],
        "commands": sorted(flow.command_names),
        "inputs": flow.Inputs.model_json_schema() if flow.Inputs else None,
        "answer": None if (answers := flow.answer_type()) is None else dict(answers.schema),
        **({"allowed_models": list(models)} if (models := flow.allowed_models) else {}),
        **(
            {"fork_nodes": list(nodes), "own_values": list(flow.own_values)}
            if (nodes := flow.fork_nodes)
            else {}
        ),
    }


def reads_messages(flow: FlowInfo) -> bool:
    """Return whether a flow's controller or agent reads messages to its runs.

    Workers of older releases do not announce it. Then it is whether the flow has a controller.
    """
    return flow.get("reads_messages", "Controller" in flow["nodes"])


def shown(
    flows: Mapping[str, Shown], enabled: Iterable[str] = (), also: str = ""
) -> dict[str, Shown]:
    """Return the flows that a list shows to users.

    A flow that comes with Perdure is shown only if it is enabled here, or if it runs shell commands
    and a live worker runs it. But if only flows that come with Perdure are left, all of them are
    shown. ``HELPERS`` are left out.

    Args:
        flows: All flows by name.
        enabled: Names of flows that the settings enable.
        also: Name of a flow to show in any case. Empty for none.
    """
    enabled = {*enabled, also}
    flows = {name: flow for name, flow in flows.items() if name not in HELPERS or name == also}
    visible = {
        name: flow
        for name, flow in flows.items()
        if not flow.get("shipped") or name in enabled or (flow["runs_shell"] and flow["workers"])
    }
    return visible if any(not flow.get("shipped") for flow in visible.values()) else flows


def names_text(flows: Iterable[str]) -> str:
    """Return names of flows as one text for people, without ``HELPERS``."""
    return ", ".join(name for name in flows if name not in HELPERS)


#: The type of a flow's inputs.
OBJECT = {"type": "object"}


def check_announced(name: str, schema: dict[str, Any] | None, inputs: dict[str, Any]) -> None:
    """Check inputs against a flow's announced JSON Schema.

    A client without the flow's code cannot check more. The worker validates the inputs before the
    first round.

    Args:
        name: The name of the flow, for the error text.
        schema: The schema of the inputs. None accepts all inputs.

    Raises:
        InvalidInput: The inputs do not fit. The message names the missing, unknown and wrong
            inputs, and the expected ones.
    """
    if schema is None:
        return
    properties = schema.get("properties", {})
    missing = [key for key in schema.get("required", []) if key not in inputs]
    unknown = (
        []
        if schema.get("additionalProperties")
        else [key for key in inputs if key not in properties]
    )
    faults = [f"missing: {', '.join(missing)}"] * bool(missing) + [
        f"unknown: {', '.join(unknown)}"
    ] * bool(unknown)
    for key, value in inputs.items():
        if key in properties:
            own = {"properties": {key: properties[key]}, "$defs": schema.get("$defs"), **OBJECT}
            faults += faults_of(own, {key: value})
    if faults:
        raise InvalidInput(
            f"flow {name!r} does not accept these inputs: {'; '.join(faults)}. It expects: "
            f"{', '.join(properties) or 'none'}"
        )
