"""Spans of runs, as a collector gets them; the rounds are played in this process, the spans go over
a real socket.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased

from perdure import (
    Client,
    Command,
    Conflict,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    Step,
    StepFailed,
    Steps,
    command,
    register,
    workflow,
)
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import UserMessage
from perdure.flows.controllers.model.traced_content import of_request
from perdure.flows.core.genai_attributes import (
    CONVERSATION,
    DEFINITIONS,
    FINISH_REASONS,
    INPUT,
    OUTPUT,
    SYSTEM,
    TOOL_ARGUMENTS,
    TOOL_CALL,
    TOOL_RESULT,
)
from perdure.testing import FakeModel, FakeReply
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, NotReplicated, Store
from perdure.worker.tracing import attributes, propagation
from perdure.worker.tracing.propagation import TraceContextMiddleware
from perdure.worker.tracing.round_spans import tell_losses
from perdure.worker.tracing.run_spans import parent_of
from perdure.worker.tracing.switch import SuppressTracingErrors, is_on
from tests.support.example_flows import child_runs, rings  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import begin_fast_path, play, runtime_of
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until
from tests.support.runs import LEASE
from tests.support.trace_collector import ERROR, Collector, collector, traced_to

CANARY = "canary-of-what-nobody-may-see"
#: Attributes with the content of messages and tool calls.
CONTENT = (CONVERSATION, SYSTEM, INPUT, OUTPUT, DEFINITIONS, TOOL_ARGUMENTS, TOOL_RESULT)


@register("canary")
class Canary(ControllerExecutorFlow):
    """Has a secret wherever a run can have one."""

    def decide(self, context: RoundContext) -> Command | Finish:
        context.tell(note=CANARY)
        if len(context.history) == 1:
            return Command("shout", {"text": CANARY})
        return (
            Finish(CANARY)
            if len(context.history) > 1
            else Command("sing", {"text": CANARY}, {"thought": CANARY})
        )

    @command(idempotent=True)
    def sing(self, context: RoundContext, text: str) -> str:
        context.remember("kept", text)
        return text

    @command(idempotent=True)
    def shout(self, context: RoundContext, text: str) -> str:
        if context.attempt == 1:
            from perdure import RetryableError

            raise RetryableError(text, retry_after=0)
        return text


@pytest.fixture
def engine(settings: Settings, client: Client) -> Iterator[Runtime]:
    """The only runtime with rounds, on the client's app."""
    made = Runtime(runtime_of(client).app, settings)
    yield made
    made.write_stats()  # the heartbeat would, after the test
    made.close()


@pytest.fixture
def clocked(engine: Runtime) -> Iterator[Store]:
    """A store whose clock a test may set forward."""
    made = Store(engine.store.url, engine.store.keys.prefix, now=engine.store.time())
    yield made
    made.close()


@pytest.fixture
def collected() -> Iterator[Collector]:
    with collector() as running:
        yield running


def test_rounds_are_children_of_the_runs_root_and_linked_to_the_round_before(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected) as provider:
        with provider.get_tracer("caller").start_as_current_span("the caller's") as caller:
            run = client.submit("ledger", "g", {"rounds": 3})
        play(engine, run.id)
    root, rounds = collected.tree(run.id, 3)
    assert root.parent == f"{caller.get_span_context().span_id:016x}", (
        "the caller's trace goes on in the run"
    )
    assert root.name == "run ledger" and root["flow"] == "ledger" and root.end <= rounds[0].start
    assert [span.name for span in rounds] == [
        "round Controller",
        "round Executor",
        "round Controller",
    ]
    assert [span.links for span in rounds] == [
        (),
        ((root.trace, rounds[0].id),),
        ((root.trace, rounds[1].id),),
    ]
    assert [(span["step"], span["attempt"], span["outcome"]) for span in rounds] == [
        (0, 1, "continued"),
        (1, 1, "continued"),
        (2, 1, "completed"),
    ]
    assert {span["worker"] for span in rounds} == {engine.name} and all(
        span["queue_wait_seconds"] >= 0 for span in rounds
    )


def test_a_child_run_is_in_the_trace_of_its_parent_below_the_round_that_started_it(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("errand", "g", {"child": {"rounds": 2}})
        play(engine, run.id)
        [child] = client.children(run.id).runs
        play(engine, child.id)
        play(engine, run.id)
    root, rounds = collected.tree(run.id, 2)
    below, its_rounds = collected.tree(child.id, 2)
    assert {span.trace for span in (*rounds, below, *its_rounds)} == {root.trace}
    assert (rounds[0]["outcome"], below.parent) == ("parked", rounds[0].id)
    assert client.get(child.id).details["trace_id"] == client.get(run.id).details["trace_id"]


def test_a_run_that_was_submitted_untraced_gets_its_root_from_its_first_traced_round(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    run = client.submit("ledger", "g", {"rounds": 3})
    with traced_to(collected):
        play(engine, run.id)
    root, rounds = collected.tree(run.id, 3)
    assert (
        root.parent == ""
        and root.start == root.end == round(run.created_at.timestamp() * 1000) * 1_000_000
    )
    assert len(rounds) == 3


def test_rounds_of_a_run_that_stays_are_of_one_root_and_waited_for_nothing(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    """The worker's claim of the next round has the root that this one gave to the run."""
    run = client.submit("threads", "g", {"rounds": 8})
    fast = begin_fast_path(engine)
    engine.store.redis.rpop(engine.store.keys.queue("controller"))
    kept, delivery = [], fast.handoff(until=math.inf)
    with traced_to(collected), monitored(engine.store) as counts:
        while delivery is not None:
            step = int((engine.store.reads.fields(run.id) or {})["step"])
            engine.rounds.run(run.id, 0, step, delivery)
            claim = delivery.prefetched and delivery.prefetched.claim
            delivery = claim and fast.handoff(claim, until=math.inf)
            kept.append(bool(claim and claim.carried_over))
    assert kept == [*[True] * 7, False] and counts["set_trace"] == 1
    root, rounds = collected.tree(run.id, 8)
    assert (
        root.parent == ""
        and [span["queue_wait_seconds"] for span in rounds if span["step"] > 0] == [0.0] * 7
    )


def test_a_root_that_a_worker_makes_goes_out_before_anything_can_happen_to_the_worker(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    """If it is killed, all spans of the run by others hang on that root."""
    runs = [client.submit("ledger", "g", {"rounds": 1}).id for _ in range(2)]
    with traced_to(collected, every=3_600_000):
        for run_id in runs:
            play(engine, run_id)
            until(
                lambda run_id=run_id: any(span["step"] is None for span in collected.of(run_id)),
                "the root",
            )


def test_a_submission_of_which_nobody_knows_what_became_has_a_root_that_says_why(
    settings: Settings, engine: Runtime, collected: Collector
) -> None:
    doubting = settings.model_copy(update={"wait_replicas": 1, "wait_timeout_seconds": 0.01})
    with traced_to(collected), closing(Client(settings=doubting)) as client:
        with pytest.raises(NotReplicated):
            client.submit("ledger", "g", {"rounds": 1}, run_id="doubtful")
        play(engine, "doubtful")
    root, _ = collected.tree("doubtful", 1)
    assert root.status == ERROR and root.attributes["error.type"].endswith(".NotReplicated")


def test_of_two_roots_for_one_run_the_first_stands_and_the_other_is_told_nobody(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1})
    fields = engine.store.reads.fields(run.id) or {}
    with traced_to(collected):
        parents = [
            trace.get_current_span(parent_of(engine.store, fields)).get_span_context()
            for _ in range(2)
        ]
        play(engine, run.id)
    assert parents[0] == parents[1]
    collected.tree(run.id, 1)


def test_a_submission_repeated_under_its_key_makes_no_second_root(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        first, again = (
            client.submit("ledger", "g", {"rounds": 1}, idempotency_key="k") for _ in range(2)
        )
        with pytest.raises(Conflict):
            client.submit("ledger", "another", {"rounds": 1}, idempotency_key="k")
        play(engine, first.id)
    assert first.id == again.id
    collected.tree(first.id, 1)
    assert len(collected.spans) == 2


def test_a_submission_sent_again_under_its_nonce_makes_no_second_root(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        for _ in range(2):
            client.submit(
                "ledger", "g", {"rounds": 1}, run_id="once", nonce="n0nceOfOneCallAlone0123456789"
            )
        play(engine, "once")
    collected.tree("once", 1)
    assert len(collected.spans) == 2


def test_a_failing_attempt_says_so_by_its_exceptions_type_and_the_next_attempt_is_a_span_beside_it(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("trouble", "g", {"times": 2, "retry_after": 0})
        play(engine, run.id)
    _, rounds = collected.tree(run.id, 3)
    assert [(span["attempt"], span["outcome"], span.status) for span in rounds] == [
        (1, "waiting", ERROR),
        (2, "waiting", ERROR),
        (3, "completed", 0),
    ]
    assert [span.attributes.get("error.type") for span in rounds] == [
        "perdure.flows.core.errors.RetryableError"
    ] * 2 + [None]
    assert {span.message for span in rounds} == {""}


def test_a_lost_attempt_is_told_by_whoever_freed_its_lease(
    client: Client, engine: Runtime, clocked: Store, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("ledger", "g", {"rounds": 2})
        lose(clocked, run.id)
        play(engine, run.id)
    _, rounds = collected.tree(run.id, 3)
    lost, recovered, _ = rounds
    assert (lost["step"], lost["attempt"], lost["outcome"], lost["worker"], lost["losses"]) == (
        0,
        1,
        "lost",
        "the dead",
        1,
    )
    assert (lost.status, lost.message, lost.attributes["error.type"]) == (
        ERROR,
        "worker lost",
        "worker_lost",
    )
    assert lost.end - lost.start >= LEASE * 1_000_000, "from the claim until the loss was noticed"
    assert (recovered["step"], recovered["attempt"], recovered["outcome"], recovered["losses"]) == (
        0,
        2,
        "continued",
        1,
    )


def test_the_last_of_too_many_losses_is_told_and_no_end_that_was_no_loss(
    client: Client, clocked: Store, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("ledger", "g", {"rounds": 2})
        assert [lose(clocked, run.id, max_losses=1) for _ in range(2)] == ["freed", "errored"]
        late = client.submit("ledger", "g", {"rounds": 2})
        lose(clocked, late.id)
        tell_losses(
            clocked, [(late.id, "errored")]
        )  # not by a loss: its deadline passed while it waited, say
    _, rounds = collected.tree(run.id, 2)
    assert [(span["attempt"], span["outcome"]) for span in rounds] == [(1, "lost"), (2, "lost")]
    collected.tree(late.id, 1)


def lose(store: Store, run_id: str, max_losses: int = 9) -> str:
    """Claim the run's round, as a worker that dies then; let time pass, sweep, and report.

    Return the sweep's words.
    """
    assert store.now is not None
    report: dict[str, str] = {}
    claimed = store.rounds.claim(
        run_id,
        epoch=0,
        step=0,
        claim=f"c{store.now}",
        owner="the dead",
        lease=LEASE,
        known=["ledger"],
    )
    assert isinstance(claimed, Claim)
    while report.get(run_id, "in_line") == "in_line":
        report = dict(store.fleet.sweep(lease=LEASE, max_losses=max_losses, jitter=0.5).report)
        store.now += (
            LEASE // 4
        )  # no faster than sweepers sweep: a longer silence would spare the lease
    tell_losses(store, list(report.items()))
    return report[run_id]


def test_nothing_that_a_run_says_or_is_told_is_in_a_span(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit(
            "canary",
            CANARY,
            {"key": CANARY},
            labels={"l": CANARY},
            thread_id=CANARY,
            idempotency_key=CANARY,
        )
        play(engine, run.id)
    _, rounds = collected.tree(run.id, 6)
    done = client.get(run.id)
    assert done.answer == CANARY and CANARY in repr(list(client.events(run.id, follow=False)))
    assert not any(CANARY.encode() in body for body in collected.raw)
    tools = [span.attributes.get("gen_ai.tool.name") for span in rounds]
    assert tools == [None, "sing", None, "shout", "shout", None]
    assert {
        span.attributes["gen_ai.operation.name"] for span in rounds if span["node"] == "Executor"
    } == {"execute_tool"}


@register("said_aloud")
class SaidAloud(ControllerExecutorFlow):
    """Asks a model."""

    controller = ModelController(model="openai:gpt-5-mini", system="Be kind.")

    @command(idempotent=True)
    def sing(self, text: str) -> str:
        """Sing a text."""
        return f"la {text}"


@pytest.mark.parametrize("asked_for", [True, False])
def test_what_is_said_is_in_spans_only_if_that_is_asked_for(
    client: Client, settings: Settings, collected: Collector, asked_for: bool
) -> None:
    settings = settings.model_copy(update={"trace_content": asked_for})
    runtime = Runtime(runtime_of(client).app, settings)
    replies = [FakeReply("I sing.", calls=[Command("sing", {"text": CANARY})]), Finish("sung")]
    with traced_to(collected), FakeModel(replies):
        run = client.submit("said_aloud", "sing", thread_id="ann")
        play(runtime, run.id)
    runtime.close()
    _, rounds = collected.tree(run.id, 3)
    assert client.get(run.id).answer == "sung"
    assert any(CANARY.encode() in body for body in collected.raw) is asked_for
    asked, sung, ended = (span.attributes for span in rounds)
    names = {name for name in (*asked, *sung) if name in CONTENT}
    assert names == (set(CONTENT) if asked_for else set())
    assert sung[TOOL_CALL] and asked[FINISH_REASONS] == ended[FINISH_REASONS] == ["stop"]
    if not asked_for:
        return
    assert [each[CONVERSATION] for each in (asked, sung, ended)] == ["ann"] * 3
    [called] = [each for each in json.loads(asked[OUTPUT])[0]["parts"] if "id" in each]
    assert called["id"] == sung[TOOL_CALL]
    assert json.loads(asked[SYSTEM]) == [{"type": "text", "content": "Be kind."}]
    assert json.loads(asked[INPUT])[0]["role"] == "user"
    [reply] = json.loads(asked[OUTPUT])
    assert reply["parts"][0] == {"type": "text", "content": "I sing."}
    assert (reply["parts"][1]["name"], reply["parts"][1]["arguments"]) == ("sing", {"text": CANARY})
    assert {each["name"] for each in json.loads(asked[DEFINITIONS])} >= {"sing", "finish"}
    assert json.loads(sung[TOOL_ARGUMENTS]) == {"text": CANARY}
    assert json.loads(sung[TOOL_RESULT]) == f"la {CANARY}"
    kinds = [part["type"] for each in json.loads(ended[INPUT]) for part in each["parts"]]
    assert kinds == ["text", "text", "tool_call", "tool_call_response"]


def test_a_long_request_is_traced_without_its_oldest_messages() -> None:
    told = of_request([UserMessage(letter * 40_000) for letter in "abcd"], [])
    assert [each["parts"][0]["content"][0] for each in json.loads(told[INPUT])] == ["c", "d"]


def test_what_a_node_traces_is_within_its_round(
    client: Client, engine: Runtime, collected: Collector, monkeypatch: Any
) -> None:
    seen: list[trace.SpanContext] = []

    async def write(self: Any, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        seen.append(trace.get_current_span().get_span_context())
        return {self.early_exit_key: True, "answer": 1}

    monkeypatch.setattr(rings.Ledger, "write", write)
    with traced_to(collected):
        run = client.submit("ledger", "g", {"rounds": 1})
        play(engine, run.id)
    _, [one] = collected.tree(run.id, 1)
    assert [f"{context.span_id:016x}" for context in seen] == [one.id]


def whispers(text: str) -> str:
    return text


def coughs(text: str) -> str:
    raise ValueError(text)


@workflow("traced_siblings")
def traced_siblings(steps: Steps) -> None:
    with suppress(StepFailed):
        steps.gather([Step(whispers, CANARY), Step(coughs, CANARY)])
    with suppress(StepFailed):
        steps.step(coughs, CANARY, name="alone")


def test_each_of_several_steps_at_once_and_a_failed_one_has_a_span_within_its_round(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("traced_siblings", "g")
        play(engine, run.id)

    def parts() -> list[Any]:
        return sorted(
            (each for each in collected.spans if each.name.startswith("step ")),
            key=lambda each: each.name,
        )

    until(lambda: len(parts()) == 3, "a span for each step")
    rounds = {each.id for each in collected.of(run.id) if each["step"] is not None}
    assert [(each.name, each.status) for each in parts()] == [
        ("step alone", ERROR),
        ("step coughs", ERROR),
        ("step whispers", 0),
    ]
    assert all(each.parent in rounds for each in parts())
    assert CANARY not in str([vars(each) for each in parts()])


@workflow("traced_in_turn")
def traced_in_turn(steps: Steps) -> None:
    steps.step(whispers, CANARY, name="agent__x__model.request")
    with suppress(StepFailed):
        steps.step(coughs, CANARY)
    steps.step(whispers, CANARY)


def test_each_of_several_steps_in_turn_has_a_span_which_is_that_of_its_round(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    with traced_to(collected):
        run = client.submit("traced_in_turn", "g")
        assert play(engine, run.id) == ["continued", "continued", "completed"]
    _, rounds = collected.tree(run.id, 3)
    steps = ["agent__x__model.request", "coughs", "whispers"]
    assert [each.attributes["gen_ai.tool.name"] for each in rounds] == steps
    assert {each.attributes["gen_ai.operation.name"] for each in rounds} == {"execute_tool"}
    assert [each["step"] for each in rounds] == [0, 1, 2]
    assert all(before.end <= after.start for before, after in pairwise(rounds))
    assert CANARY not in str([vars(each) for each in collected.spans])


@pytest.mark.parametrize("kept", [None, "garbage"])
def test_a_round_is_in_no_other_trace_than_its_runs(
    client: Client, engine: Runtime, collected: Collector, kept: str | None
) -> None:
    """If Celery is instrumented too, a task has a separate span, in the trace of the task that sent
    it.
    """
    run = client.submit("ledger", "g", {"rounds": 2})
    if kept is not None:
        client._store.redis.hset(client._store.keys.run(run.id), "trace", kept)
    with (
        traced_to(collected) as provider,
        provider.get_tracer("celery").start_as_current_span("run/perdure.controller_round") as task,
    ):
        play(engine, run.id)
    if kept is None:
        collected.tree(run.id, 2)
    assert f"{task.get_span_context().trace_id:032x}" not in {
        span.trace for span in collected.of(run.id)
    }
    assert [span.name for span in collected.of(run.id) if span["step"] is not None] == [
        "round Controller",
        "round Executor",
    ]


def test_a_round_links_to_none_but_the_one_just_before(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    """Where a worker without telemetry played the round between."""
    with traced_to(collected):
        run = client.submit("ledger", "g", {"rounds": 3})
        engine.rounds.run(run.id, 0, 0)
    engine.rounds.run(run.id, 0, 1)
    with traced_to(collected):
        engine.rounds.run(run.id, 0, 2)
    _, rounds = collected.tree(run.id, 2)
    assert [(span["step"], span.links) for span in rounds] == [(0, ()), (2, ())]


def test_a_run_that_is_not_sampled_stays_so(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    """The maker of its root has decided that for all who trace it."""
    with traced_to(collected, ALWAYS_OFF):
        run = client.submit("ledger", "g", {"rounds": 2})
    with traced_to(collected, ParentBased(ALWAYS_ON)):
        play(engine, run.id)
    fields = engine.store.reads.fields(run.id) or {}
    assert "trace" in fields and "span" not in fields and collected.asked == 0


def test_a_run_submitted_over_http_is_in_the_trace_that_the_request_names(
    client: Client, engine: Runtime, collected: Collector
) -> None:
    """Also from the thread in which a web framework submits it; the request's headers are those of
    our client.
    """

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.to_thread(client.submit, "ledger", "g", {"rounds": 1}, run_id="by-url")

    async def served(sent: dict[str, str]) -> None:
        pairs = [(name.encode(), text.encode()) for name, text in sent.items()]
        await TraceContextMiddleware(app)({"type": "http", "headers": pairs}, None, None)  # type: ignore[arg-type]

    with traced_to(collected) as provider:
        with provider.get_tracer("caller").start_as_current_span("the caller's") as caller:
            sent = propagation.headers()
        asyncio.run(served(sent))
        play(engine, "by-url")
    root, _ = collected.tree("by-url", 1)
    assert root.parent == f"{caller.get_span_context().span_id:016x}" and set(sent) == {
        "traceparent"
    }
    assert client.get("by-url").details["trace_id"] == root.trace
    assert propagation.headers() == {}, "nobody traces any more"


def test_where_nobody_traces_nothing_is_kept(client: Client, engine: Runtime) -> None:
    assert not is_on()
    run = client.submit("ledger", "g", {"rounds": 2})
    assert play(engine, run.id) == ["continued", "completed"]
    assert not {"trace", "span"} & set(engine.store.reads.fields(run.id) or {})


class Broken(SpanProcessor):
    """A user's processor, with a fault at every place."""

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise RuntimeError("broken at the start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("broken at the end")


class BrokenAtTheEnd(Broken):
    def on_start(self, span: Span, parent_context: Any = None) -> None:
        pass


@pytest.mark.parametrize("broken", [Broken, BrokenAtTheEnd])
def test_a_fault_of_what_traces_costs_a_line_in_the_log_and_no_round(
    client: Client,
    engine: Runtime,
    clocked: Store,
    collected: Collector,
    caplog: pytest.LogCaptureFixture,
    broken: type[Broken],
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(SuppressTracingErrors, "_quiet_until", 0.0)
    with traced_to(collected) as provider, caplog.at_level(logging.WARNING, "perdure"):
        provider.add_span_processor(broken())
        run = client.submit("ledger", "g", {"rounds": 3})
        assert play(engine, run.id) == ["continued", "continued", "completed"]
        lost = client.submit("ledger", "g", {"rounds": 3})
        lose(clocked, lost.id)
    told = [line for line in caplog.messages if "could not be traced" in line]
    assert len(told) == 1 and "broken at the" in told[0], (
        "what is wrong with every span is said once a minute"
    )


@pytest.mark.parametrize("name", sorted(vars(attributes)))
def test_names_of_attributes_are_names(name: str) -> None:
    if name.isupper():
        assert getattr(attributes, name).partition(".")[0] in ("perdure", "error")
