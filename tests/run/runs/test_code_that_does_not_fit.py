"""A run that its changed code does not fit any more waits for code that fits, and does not end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from perdure import (
    CircularFlow,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    InvalidFlow,
    Node,
    RoundContext,
    RunStatus,
    Settings,
    Steps,
    VerdictCode,
    command,
    register,
    workflow,
)
from perdure.flows.adapters.langgraph import register_graph
from perdure.worker.engine.redirect import flow_set
from tests.support.flow_registry import own_registry
from tests.support.round_driver import LASTING, Driver, driving
from tests.support.runs import hash_of
from tests.support.workflow_effects import DONE, effect, nothing_done

__all__ = ["nothing_done"]

FLOW = "changing"
Deploy = Callable[[int], None]


def a_workflow(version: int, **settings: Any) -> None:
    @workflow(FLOW, **settings)
    def changing(steps: Steps) -> str:
        steps.step(effect, "first", name="first" if version == 1 else "renamed")
        steps.wait_for("go")
        return steps.step(effect, "last")


def a_ring(version: int, **settings: Any) -> None:
    @register(FLOW)
    class Changing(CircularFlow):
        needs_goal = False
        on_misfit = settings.get("on_misfit", "wait")
        topology = (
            Node("Begin", "begin"),
            Node("Wait" if version == 1 else "Waits", "waits"),
        )

        def begin(self, state: Any, context: RoundContext) -> dict[str, Any]:
            effect("first")
            return {}

        def waits(self, state: Any, context: RoundContext) -> dict[str, Any]:
            context.wait_for("go")
            return {"EARLY_EXIT": True, "answer": effect("last")}


def a_controller(version: int, **settings: Any) -> None:
    class Changing(ControllerExecutorFlow):
        needs_goal = False
        on_misfit = settings.get("on_misfit", "wait")

        def decide(self, context: RoundContext) -> Any:
            done = [turn.observation for turn in context.history]
            return Finish(done[-1]) if done else Command("last", {"page": 1})

        if version == 1:

            @command(waits=True, idempotent=True)
            def last(self, context: RoundContext, page: int) -> str:
                """Wait, and do it."""
                effect("first")
                context.wait_for("go")
                return effect("last")
        else:

            @command(waits=True, idempotent=True)
            def last(self, context: RoundContext, sheet: int) -> str:
                """Wait, and do it."""
                return effect("wrong")

    register(FLOW)(Changing)


class State(TypedDict, total=False):
    answer: str


def a_graph(version: int, **settings: Any) -> None:
    def ask(state: State) -> State:
        interrupt("May I?")
        return {"answer": effect("last")}

    graph = StateGraph(State)
    node = "ask" if version == 1 else "asks"
    graph.add_node(node, ask)
    graph.add_edge(START, node)
    graph.add_edge(node, END)
    register_graph(FLOW, graph, idempotent=True, **settings)


KINDS: dict[str, Callable[..., None]] = {
    "workflow": a_workflow,
    "ring": a_ring,
    "controller": a_controller,
    "graph": a_graph,
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Callable[..., None]:
    return KINDS[request.param]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch, FLOW)


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give the flow another code in this process."""

    def deploy(kind: Callable[..., None], version: int, **settings: Any) -> None:
        own_registry(monkeypatch, FLOW)
        kind(version, **settings)

    return deploy


@pytest.fixture
def fleet(settings: Settings) -> Iterator[Callable[..., Driver]]:
    """Makes a worker whose flows have this build."""
    with ExitStack() as stack:

        def worker(build: str, **changed: Any) -> Driver:
            changed = {"build": build, **changed}
            driver = stack.enter_context(driving(settings.model_copy(update=changed)))
            driver.engine.name = f"worker-{build}"  # both are in this process
            return driver

        yield worker


def go_on(client: Client, run_id: str) -> None:
    """Send the run the signal or answer it needs."""
    if client.get(run_id).status is RunStatus.INTERRUPTED:
        client.resume(run_id, "yes")
    else:
        client.signal(run_id, "go")


def pass_time(worker: Driver, ms: int) -> None:
    """Move the worker's clock forward, which is no silence."""
    store = worker.engine.store
    store.now = store.time() + ms
    store.redis.hset(store.keys.queues, "swept_at", store.now)


def begun(client: Client, worker: Driver, **options: Any) -> str:
    """Submit a run of the flow, and play it until it waits; return its id."""
    run_id = client.submit(FLOW, inputs={}, **options).id
    worker.play()
    assert client.get(run_id).phase in ("parked", "interrupted")
    return run_id


def test_it_waits_and_goes_on_by_itself_once_its_code_is_back(
    client: Client, fleet: Callable[..., Driver], deploy: Any, kind: Any
) -> None:
    deploy(kind, 1)
    old, new = fleet("1"), fleet("2")
    run_id = begun(client, old)
    before = dict(DONE)
    deploy(kind, 2)
    go_on(client, run_id)
    new.play()

    run, why = client.get(run_id), client.why(run_id)
    assert (run.status, run.phase) == (RunStatus.RUNNING, "waiting")
    assert dict(DONE) == before, "nothing was carried out"
    assert why.code is VerdictCode.CODE_DOES_NOT_FIT and why.since is not None
    assert (why.details["build"], why.details["fitting"]) == ("1", [])
    assert run.details["failures"] == 0 and "waits for a worker whose code fits" in why.sentence
    assert run_id in [verdict.details["run"] for verdict in client.stuck()]

    for _ in range(2):  # it is offered again, in vain
        pass_time(new, 60_000)
        new.sweep_and_play()
    told = [event for event in client.events(run_id, follow=False) if event.type == "waits"]
    assert [event.data["waits"] for event in told] == ["1", "2", "3"]
    assert {event.data["for"] for event in told} == {"code"}

    deploy(kind, 1)
    pass_time(old, 600_000)
    old.sweep_and_play()
    assert client.get(run_id).status is RunStatus.COMPLETED
    assert DONE["last"] == 1


def test_it_ends_at_once_if_no_code_has_changed_since_its_last_commit(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    """A workflow that depends on chance, say: to wait cannot help."""
    deploy(a_workflow, 1)
    worker = fleet("1")
    run_id = begun(client, worker)
    deploy(a_workflow, 2)
    go_on(client, run_id)
    worker.play()
    run = client.get(run_id)
    assert run.status is RunStatus.ERRORED and f"perdure retry {run_id}" in str(run.error)


def test_a_command_that_code_should_not_have_chosen_ends_a_new_run_at_once(
    client: Client, fleet: Callable[..., Driver]
) -> None:
    @register(FLOW)
    class Mistaken(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Any:
            return Command("lok", {})

        @command(idempotent=True)
        def look(self) -> str:
            """Look."""
            return "seen"

    run_id = client.submit(FLOW, "go").id
    fleet("1").play()
    assert client.get(run_id).status is RunStatus.ERRORED


def test_a_node_that_is_gone_before_the_first_round_is_waited_for(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    """The client that submitted the run had other code."""

    def a_ring_with_another_first_node(version: int) -> None:
        @register(FLOW)
        class Changed(CircularFlow):
            needs_goal = False
            topology = (Node("Start", "start"),)

            def start(self, state: Any, context: RoundContext) -> dict[str, Any]:
                return {"EARLY_EXIT": True, "answer": 1}

    deploy(a_ring, 1)
    run_id = client.submit(FLOW, inputs={}).id
    deploy(a_ring_with_another_first_node, 2)
    fleet("2").play()
    assert client.why(run_id).code is VerdictCode.CODE_DOES_NOT_FIT


def test_on_misfit_end_ends_it_at_once(
    client: Client, fleet: Callable[..., Driver], deploy: Any, kind: Any
) -> None:
    deploy(kind, 1, on_misfit="end")
    old, new = fleet("1"), fleet("2")
    run_id = begun(client, old)
    deploy(kind, 2, on_misfit="end")
    go_on(client, run_id)
    new.play()
    assert client.get(run_id).status is RunStatus.ERRORED
    with pytest.raises(InvalidFlow, match="on_misfit is 'stay'; expected 'wait' or 'end'"):
        deploy(kind, 1, on_misfit="stay")


def test_misfit_seconds_ends_the_wait(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    deploy(a_workflow, 1)
    run_id = begun(client, fleet("1"))
    deploy(a_workflow, 2)
    go_on(client, run_id)
    fleet("2", misfit_seconds=0.0).play()
    run = client.get(run_id)
    assert run.status is RunStatus.ERRORED and "misfit_seconds" in str(run.error)


def test_a_wait_for_code_has_a_clock_of_its_own(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    """A step that has waited for its provider for long is not ended by its first misfit."""
    deploy(a_workflow, 1)
    run_id = begun(client, fleet("1"))
    key = client._store.keys.run(run_id)
    found = hash_of(client._store, run_id)
    long_ago = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000)
    client._store.redis.hset(key, "failing", f"{found['epoch']} {found['step']} {long_ago} 9")
    deploy(a_workflow, 2)
    go_on(client, run_id)
    fleet("2").play()
    assert client.why(run_id).code is VerdictCode.CODE_DOES_NOT_FIT


@pytest.mark.settings(**LASTING)
def test_its_message_is_handed_on_to_a_live_worker_whose_code_made_its_last_commit(
    client: Client, fleet: Callable[..., Driver], deploy: Any, kind: Any
) -> None:
    deploy(kind, 1)
    old, new, other = fleet("1"), fleet("2"), fleet("3")
    for worker in (old, new, other):
        builds, keys = worker.engine.builds, client._store.keys
        worker.engine.own_queues = [
            keys.queue_of_set(role, flow_set(builds)) for role in ("controller", "executor")
        ]
        worker.sweeper_of_a_worker().announce()
    run_id = begun(client, old)
    deploy(kind, 2)
    go_on(client, run_id)
    assert new.play() == [run_id]
    [told] = [event for event in client.events(run_id, follow=False) if event.type == "handed_on"]
    assert (told.data["to"], told.data["by"]) == (old.name, new.name)
    why = client.why(run_id)
    assert why.code is VerdictCode.IN_LINE and "does not fit the run" in why.sentence
    assert new.play() == other.play() == [], "only the old worker can take it"
    deploy(kind, 1)
    old.play()
    assert client.get(run_id).status is RunStatus.COMPLETED


def test_a_parent_does_not_hear_of_a_child_that_waits_for_code(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    @workflow("parent_of_changing")
    def parent(steps: Steps) -> Any:
        return steps.child(FLOW)

    deploy(a_workflow, 1)
    workflow("parent_of_changing")(parent)
    old = fleet("1")
    run_id = client.submit("parent_of_changing", inputs={}).id
    old.play()
    [child] = [each.id for each in client.tree(run_id).children]
    deploy(a_workflow, 2)
    workflow("parent_of_changing")(parent)
    client.signal(child, "go")
    fleet("2").play()
    assert client.why(child).code is VerdictCode.CODE_DOES_NOT_FIT
    assert client.why(run_id).code is VerdictCode.WAITING_FOR_CHILDREN


def test_the_event_of_a_round_says_that_its_code_is_another(
    client: Client, fleet: Callable[..., Driver], deploy: Any
) -> None:
    deploy(a_workflow, 1)
    run_id = begun(client, fleet("1"))
    go_on(client, run_id)
    fleet("2").play()
    told = [event for event in client.events(run_id, follow=False) if event.type == "committed"]
    assert [event.data.get("build") for event in told] == [None, "2", None]
