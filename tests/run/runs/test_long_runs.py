"""Runs of very many rounds: the kept turns and events of a flow, and the renewal of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from perdure import (
    AsyncClient,
    Child,
    CircularFlow,
    Client,
    ControllerExecutorFlow,
    End,
    Event,
    Finish,
    Flow,
    Forgotten,
    Interrupt,
    Node,
    Renew,
    RoundContext,
    Run,
    RunStatus,
    Settings,
    command,
    register,
)
from perdure.testing import Lab
from perdure.worker.domain.event import id_before
from perdure.worker.operations.event_batches import hear
from tests.support.counted_runs import counted, long, play
from tests.support.example_flows import long_runs
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import driving
from tests.support.runs import hash_of, phase

__all__ = ["long"]

MODULES = ("tests.support.example_flows.long_runs", __name__)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


def test_a_flow_without_bounds_keeps_all(client: Client, settings: Settings) -> None:
    run = counted(client, settings, "counts", rounds=150)
    assert run.answer == ["Count", 150, 149, list(range(1, 150))]
    fields = hash_of(client._store, run.id)
    assert not {"forgotten", "generation", "keep_events"} & set(fields) and fields["schema"] == "1"
    assert len(list(client.events(run.id))) == 152


def test_a_bounded_run_keeps_its_newest_turns_under_their_numbers(
    client: Client, settings: Settings
) -> None:
    run = counted(client, settings, "counts_bounded", rounds=40)
    assert run.answer == ["Count", 40, 39, [37, 38, 39]]
    assert (run.details["turns"], run.details["forgotten"]) == (40, 37)
    transcript = client.transcript(run.id)
    assert [turn["observation"] for turn in transcript["history"]] == [38, 39, 40]
    assert transcript["run"]["details"]["forgotten"] == 37


class Asks(Flow):
    """Asks for the turn of ``number`` by its number, after five rounds of which it keeps two turns."""

    keep_turns = 2
    nodes = long_runs.Counts.nodes

    def play(self, node: str, context: RoundContext) -> Any:
        if context.step < 5:
            return long_runs.Counts.play(self, node, context)  # type: ignore[arg-type]
        return End(context.history[context.inputs["number"]].observation)


register("asks_for_a_turn")(Asks)


@pytest.mark.parametrize(("number", "turn"), [(3, 4), (4, 5), (-1, 5), (-2, 4)])
def test_a_turn_that_is_there_has_its_number(
    client: Client, settings: Settings, number: int, turn: int
) -> None:
    inputs = {"number": number, "rounds": 99, "every": 0, "keep": 0}
    run = client.submit("asks_for_a_turn", "g", inputs)
    play(settings, run.id)
    assert client.get(run.id).answer == turn


def test_a_turn_that_is_gone_says_which_are_there(client: Client, settings: Settings) -> None:
    inputs = {"number": 2, "rounds": 99, "every": 0, "keep": 0}
    run = client.submit("asks_for_a_turn", "g", inputs)
    play(settings, run.id)
    fields = hash_of(client._store, run.id)
    assert "Forgotten" in fields["last_error"]
    assert "turn 2 of the history is gone; turns 3 to 4 are there" in fields["last_error"]
    assert Forgotten.code == "forgotten" and issubclass(Forgotten, IndexError)


def test_the_events_of_a_trimmed_id_begin_with_one_that_says_so(client: Client, long: Run) -> None:
    events = list(client.events(long.id))
    first, second = events[:2]
    assert (first.type, first.data) == ("trimmed", {"before": second.id})
    assert (first.step, first.node) == (second.step, second.node) and first.id < second.id
    assert 10 <= len(events) <= 120 and events[-1].type == "completed"
    for after in ("1-1", id_before(first.id)):
        assert list(client.events(long.id, after)) == events
    for after, left in ((first.id, events[1:]), (second.id, events[2:]), (events[-1].id, [])):
        assert list(client.events(long.id, after)) == left


def test_async_clients_and_transcripts_see_the_same(
    client: Client, settings: Settings, long: Run
) -> None:
    events = list(client.events(long.id))

    async def read() -> list[Event]:
        own = AsyncClient(settings=settings)
        try:
            return [event async for event in own.events(long.id)]
        finally:
            await own.close()

    assert asyncio.run(read()) == events
    assert [event["id"] for event in client.transcript(long.id)["events"]] == [
        event.id for event in events
    ]


def test_who_follows_too_slowly_is_told(client: Client, settings: Settings) -> None:
    run = client.submit("counts_bounded", "g", {"rounds": 900})
    with driving(settings) as driver:
        following = client.events(run.id)
        assert next(following).type == "submitted"
        driver.play(2_000)
        kinds = [event.type for event in following]
    assert kinds.count("trimmed") == 1 and kinds[-1] == "completed"


def test_a_run_in_time_misses_nothing_and_is_told_nothing(
    client: Client, settings: Settings
) -> None:
    run = client.submit("counts_bounded", "g", {"rounds": 300})
    seen: list[Event] = []
    after = None
    with driving(settings) as driver:
        while (message := driver.take()) is not None:
            driver.engine.rounds.run(*message)
            seen += client.events(run.id, after, follow=False)
            after = seen[-1].id
    assert [event.step for event in seen if event.type == "committed"] == list(range(300))
    assert "trimmed" not in {event.type for event in seen}


def test_a_renewal_goes_on_as_the_same_run_at_its_first_node(
    client: Client, settings: Settings
) -> None:
    run = client.submit(
        "counts", "g", {"rounds": 25, "every": 10}, labels={"a": "b"}, max_rounds=15
    )
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.answer == ["Count", 25, 24, [19, 20, 21, 22, 23, 24]]
    assert (ended.details["generation"], ended.details["cycles"]) == (2, 4)
    assert ended.details["earlier_cycles"] == 18 and ended.state.step == 25
    assert (ended.id, ended.labels) == (run.id, {"a": "b"})
    events = [(event.type, event.step, event.node) for event in client.events(run.id)]
    assert [each for each in events if each[0] == "renewed"] == [
        ("renewed", 9, "Count"),
        ("renewed", 19, "Count"),
    ]
    nodes = [node for kind, _, node in events if kind == "committed"]
    assert [number for number, node in enumerate(nodes) if node == "First"] == [0, 10, 20]


def test_the_limit_of_cycles_is_each_generations_and_a_budget_is_the_runs(
    client: Client, settings: Settings
) -> None:
    inputs = {"rounds": 100, "every": 10}
    run = client.submit("counts", "g", inputs, max_rounds=9)
    play(settings, run.id)
    assert client.get(run.id).status_text == "unfinished after 9 of 9 cycles", "ten end in a Renew"
    run = client.submit("counts", "g", inputs, budgets={"cycles": 20})
    play(settings, run.id)
    held = client.get(run.id)
    assert held.status is RunStatus.INTERRUPTED and held.details["generation"] == 2
    assert held.details["interrupt"]["data"] == {"budget": "cycles", "limit": 20, "spent": 20}


class Renewing(CircularFlow):
    """Renews itself once, in the way that ``how`` says; spends, asks and signals are there to be lost."""

    topology = (Node("Begin", "begin"), Node("Go", "go"))
    how: Mapping[str, Any] = {}

    def begin(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        context.remember("begun", state.get("begun", 0) + 1)
        return {"kept": "value", "inputs": dict(context.inputs)}

    def go(self, state: dict[str, Any], context: RoundContext) -> Any:
        context.spend(tokens=5)
        if state["begun"] == 1 and not state.get("renewed"):
            context.remember("remembered", True)
            how = {**self.how, **context.inputs.get("how", {})}
            return Renew(**how)
        return {self.early_exit_key: True, "answer": dict(state), "status": "finished"}


register("renewing")(Renewing)


@pytest.mark.parametrize(
    ("how", "there", "gone"),
    [
        ({"values": {"renewed": 1}}, {"renewed": 1, "begun": 1}, ["remembered"]),
        ({}, {"begun": 2, "remembered": True}, []),
        ({"inputs": {"x": 7}}, {"x": 7, "begun": 2}, ["how"]),
    ],
)
def test_a_renewal_begins_with_the_inputs_and_values_that_it_names(
    client: Client, settings: Settings, how: dict[str, Any], there: dict[str, Any], gone: list[str]
) -> None:
    inputs = {"how": how} if "inputs" not in how else {"how": how, "x": 1}
    run = client.submit("renewing", "g", inputs, budgets={"tokens": 100})
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.error is None
    answer = ended.answer
    assert {name: answer.get(name) for name in there} == there
    assert not set(gone) & set(answer)
    assert ended.details["spent"] == {"tokens": 10.0}


def test_inputs_that_do_not_fit_end_the_run_and_lose_nothing(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renews(self: Any, node: str, context: RoundContext) -> Any:
        context.wait_for("go")
        return Renew(inputs={"rounds": "many"})

    with monkeypatch.context() as patch:
        patch.setattr(long_runs.Unbounded, "play", renews, raising=False)
        run = client.submit("counts", "g", {"rounds": 1})
        client.signal(run.id, "go", 1)
        play(settings, run.id)
    ended = client.get(run.id)
    assert ended.status is RunStatus.ERRORED and ended.error is not None
    assert "node First renewed the run with inputs that do not fit" in ended.error
    assert "rounds" in ended.error and f"perdure retry {run.id}" in ended.error
    assert client._store.signals.counts_of(run.id, ["go"]) == {"go": (0, 1)}
    client.retry(run.id)
    play(settings, run.id)
    assert client.get(run.id).answer == ["First", 1, 0, []]


@pytest.mark.parametrize("keep", [-1, "2", True, 1.5])
def test_a_number_of_turns_that_is_none_is_an_error(
    client: Client, settings: Settings, keep: Any
) -> None:
    run = client.submit("renewing", "g", {"how": {"keep_turns": keep}})
    play(settings, run.id)
    error = client.get(run.id).error
    assert error is not None and "Renew: keep_turns is" in error


def test_a_value_of_the_flows_own_is_refused(client: Client, settings: Settings) -> None:
    run = client.submit("renewing", "g", {"how": {"values": {"_x": 1}}})
    play(settings, run.id)
    error = client.get(run.id).error
    assert error is not None and "'_x'" in error and "reserved" in error


def test_a_pause_before_the_first_node_holds_after_a_renewal(
    client: Client, settings: Settings
) -> None:
    run = client.submit(
        "renewing", "g", {"how": {"values": {"renewed": 1}}}, interrupt_before=["Begin"]
    )
    client.resume(run.id)
    play(settings, run.id)
    held = client.get(run.id)
    assert held.status is RunStatus.INTERRUPTED and held.state.interrupted_node == "Begin"
    client.resume(run.id)
    play(settings, run.id)
    assert client.get(run.id).answer["renewed"] == 1


class Agent(ControllerExecutorFlow):
    """Adds up to three; a node behind the Executor renews the run once."""

    topology = (
        Node("Controller", "choose_command", role="controller"),
        Node(
            "Executor",
            "carry_out",
            input_interface="command_to_branch",
            output_interface="branch_to_observation",
        ),
        Node("Review", "review"),
    )

    def decide(self, context: RoundContext) -> Any:
        from perdure import Command

        if context.values.get("rounds", 0) >= 2:
            return Finish([turn.observation for turn in context.history])
        return Command("add")

    @command
    def add(self, context: RoundContext) -> int:
        """Add one."""
        return len(context.history) + 1

    def review(self, state: dict[str, Any], context: RoundContext) -> Any:
        rounds = state.get("rounds", 0) + 1
        return Renew(values={"rounds": rounds}, keep_turns=5) if rounds == 1 else {"rounds": rounds}


register("renewing_agent")(Agent)


def test_a_node_of_a_controller_executor_flow_renews_and_its_turn_is_there(
    client: Client, settings: Settings
) -> None:
    run = client.submit("renewing_agent", "g")
    play(settings, run.id)
    ended = client.get(run.id)
    assert (ended.answer, ended.details["generation"]) == ([1, 2], 1)


@register("renewing_parent")
class Parent(CircularFlow):
    """Starts a child that goes on and another that it waits for, renews, and does so again."""

    topology = (Node("Hand", "hand"),)
    keep_events = 5

    def hand(self, state: dict[str, Any], context: RoundContext) -> Any:
        done = state.get("done", 0) + 1
        context.gather([Child("counts", "g", {"rounds": 1})], wait="settled")
        if done < context.inputs["times"]:
            return Renew(values={"done": done})
        context.wait_for("end")
        return {self.early_exit_key: True, "answer": done, "status": "finished"}


def test_children_of_a_run_whose_events_are_gone_are_listed_as_long_as_it_has_their_group(
    client: Client, settings: Settings
) -> None:
    run = client.submit("renewing_parent", "g", {"times": 60})
    with driving(settings) as driver:
        driver.play(1_000)
        assert phase(client._store, run.id) == "parked"
        store = client._store
        ids = [child.id for child in client.children(run.id, 100)]
        assert 0 < len(ids) < 60
        store.redis.xtrim(store.keys.events(run.id), maxlen=1, approximate=False)
        assert [child.id for child in client.children(run.id)] == ids[-1:]
        client.signal(run.id, "end")
        driver.play()
    assert client.get(run.id).answer == 60


@register("renewing_starter")
class Starter(CircularFlow):
    """Starts a child, renews, and joins the child in its second generation."""

    topology = (Node("Begin", "begin"), Node("Go", "go"))

    def begin(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {}

    def go(self, state: dict[str, Any], context: RoundContext) -> Any:
        if "group" not in state:
            return Renew(values={"group": context.start([Child("counts", "g", {"rounds": 3})])})
        answers = context.join(state["group"]).answers
        return {self.early_exit_key: True, "answer": answers, "status": "finished"}


def test_a_child_that_goes_on_is_joined_by_the_next_generation(
    client: Client, settings: Settings
) -> None:
    run = client.submit("renewing_starter", "g")
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.answer == [["Count", 3, 2, [1, 2]]] and ended.details["generation"] == 1


@register("renewing_waiter")
class Waiter(CircularFlow):
    """Asks a person, then renews until it is asked to end."""

    topology = (Node("Ask", "ask"),)

    def ask(self, state: dict[str, Any], context: RoundContext) -> Any:
        if not context.answered:
            return Interrupt("go on?")
        if context.answer == "renew":
            return Renew()
        return {self.early_exit_key: True, "answer": context.answer, "status": "finished"}


def test_an_answer_is_used_up_by_the_renewal(client: Client, settings: Settings) -> None:
    run = client.submit("renewing_waiter", "g")
    play(settings, run.id)
    client.resume(run.id, "renew")
    play(settings, run.id)
    asked = client.get(run.id)
    assert asked.status is RunStatus.INTERRUPTED and asked.details["generation"] == 1
    client.resume(run.id, "end")
    play(settings, run.id)
    assert client.get(run.id).answer == "end"


def test_the_lab_finds_nothing_wrong_with_a_run_that_renews(server: CrashableServer) -> None:
    with Lab(server.url) as lab:
        report = lab("counts", "g", inputs={"rounds": 4, "every": 2})
        assert report.undisturbed.answer == ["Count", 4, 3, [1, 2, 3]]
        assert any("renewed the run" in str(each) for each in report.boundaries)
        lab("counts_bounded", "g", inputs={"rounds": 6, "every": 4, "keep": 1}, limit=40)


def test_a_live_stream_tells_a_slow_reader_of_the_gap(client: Client, settings: Settings) -> None:
    run = client.submit("counts_bounded", "g", {"rounds": 900})
    first = next(client.events(run.id))
    with driving(settings) as driver:
        driver.play(2_000)
    batch = hear(client._session, {run.id: first.id}, 10)[run.id]
    assert [event.type for event in batch.events[:2]] == ["trimmed", "committed"]
    batch = hear(client._session, {run.id: batch.events[0].id}, 10)[run.id]
    assert batch.events[0].type == "committed"
