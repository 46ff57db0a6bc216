"""Traces of real workers, exported by themselves to a real collector: killed, recovered, leaving,
with a useless collector.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.flows.controllers.model.settings import missing
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.settings import Settings
from tests.support.chat_server import Fails, Says, chat_server
from tests.support.command_line import CommandProcess
from tests.support.example_flows import model_controllers, rings  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import play, runtime_of
from tests.support.os_processes import kill_process_of, process_of
from tests.support.redis_servers import until
from tests.support.trace_collector import ERROR, Collector, Mood, collector, traced_to
from tests.support.workers import workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ROUNDS = 6


@pytest.fixture
def collected() -> Iterator[Collector]:
    with collector() as running:
        yield running


def exporting_to(running: Collector, every: int = 50) -> dict[str, str]:
    """Return the environment of a program that exports there, with a delay in ms."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": running.url, "OTEL_BSP_SCHEDULE_DELAY": str(every)}


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_the_trace_of_a_killed_and_recovered_run_is_one_tree_with_both_attempts(
    client: Client, settings: Settings, collected: Collector, pool: str
) -> None:
    """Submitted by a client that traces nothing; threads: the worker is killed, prefork: the
    process of its pool.
    """
    soon = {
        "PERDURE_LEASE_SECONDS": "2",
        "PERDURE_HEARTBEAT_SECONDS": "0.5",
        "PERDURE_SWEEP_SECONDS": "0.2",
    }
    count = 2 if pool == "threads" else 1
    with workers(
        count, settings, "--pool", pool, "--concurrency", "2", **soon, **exporting_to(collected)
    ) as running:
        run = client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": 0.5})
        # A killed process loses the spans that it has not sent yet.
        until(
            lambda: any(span["step"] == 1 for span in collected.of(run.id)),
            "the second round's span",
        )
        until(
            lambda: in_flight(client, run.id) and kill_process_of(client, run.id),
            "a round in flight",
        )
        assert client.wait(run.id, 60).status is RunStatus.COMPLETED
        [lost] = [event for event in client.events(run.id, follow=False) if event.type == "lost"]
        assert pool == "prefork" or any(
            worker.process.poll() == -signal.SIGKILL for worker in running
        )
        root, rounds = collected.tree(run.id, ROUNDS + 1)
    assert root.resource["service.name"] == "perdure"
    told = [(span["step"], span["attempt"], span["outcome"]) for span in rounds]
    words = ["continued"] * (ROUNDS - 1) + ["completed"]
    expected = [(step, 2 if step == lost.step else 1, word) for step, word in enumerate(words)]
    assert told == sorted([*expected, (lost.step, 1, "lost")])
    first, second = (span for span in rounds if span["step"] == lost.step)
    assert (
        first.status == ERROR
        and first["worker"] == lost.data["owner"]
        and first.links == second.links != ()
    )
    assert second.start >= first.start and (
        second["worker"] != first["worker"] or pool == "prefork"
    )


def in_flight(client: Client, run_id: str) -> bool:
    """Return whether its round writes: it is under way, not merely claimed."""
    return client.get(run_id).phase == "leased" and process_of(client, run_id) is not None


@pytest.mark.parametrize(
    "options",
    [("--pool", "threads"), ("--pool", "prefork", "--concurrency", "2"), ("--processes", "2")],
    ids=" ".join,
)
def test_what_a_worker_and_a_submission_have_not_sent_yet_goes_out_when_they_end(
    client: Client,
    settings: Settings,
    collected: Collector,
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    rarely = exporting_to(collected, every=3_600_000)
    perdure = CommandProcess(
        tmp_path, settings, PERDURE_FLOW_MODULES="tests.support.example_flows.rings", **rarely
    )
    with perdure.worker(*options) as process:
        run_id = perdure("submit", "ledger", "g", "--input-json", f"rounds={ROUNDS}").out.strip()
        assert [span.name for span in collected.of(run_id)] == ["run ledger"]
        assert client.wait(run_id, 30).status is RunStatus.COMPLETED
        assert len(collected.of(run_id)) == 1, "nothing of the rounds is due yet"
        process.send_signal(signal.SIGTERM)
        until(lambda: process.poll() is not None, "the worker's end")
        assert process.returncode == 0
    _, rounds = collected.tree(run_id, ROUNDS)
    assert [len(span.links) for span in rounds] == [0] + [1] * (ROUNDS - 1)


@pytest.mark.parametrize("mood", ["gone", "hangs", "refuses"])
def test_a_collector_of_no_use_costs_no_round_and_keeps_no_worker(
    client: Client, settings: Settings, tmp_path: Path, mood: Mood | str
) -> None:
    with collector("takes" if mood == "gone" else mood) as running:  # type: ignore[arg-type]
        useless = exporting_to(running) | {
            "OTEL_EXPORTER_OTLP_TIMEOUT": "100",
            "OTEL_BSP_MAX_QUEUE_SIZE": "8",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
        }
        if mood == "gone":
            useless["OTEL_EXPORTER_OTLP_ENDPOINT"] = (
                "http://127.0.0.1:9"  # the port that discards; no process listens there
            )
        perdure = CommandProcess(
            tmp_path, settings, PERDURE_FLOW_MODULES="tests.support.example_flows.rings", **useless
        )
        with perdure.worker() as process:
            done = perdure("submit", "ledger", "g", "--input-json", "rounds=40")
            assert done.code == 0
            run_id = done.out.strip()
            assert client.wait(run_id, 30).status is RunStatus.COMPLETED
            events = list(client.events(run_id, follow=False))
            assert [event.type for event in events].count("committed") == 40 and {
                event.attempt for event in events[1:]
            } <= {0, 1}
            process.send_signal(signal.SIGTERM)
            until(lambda: process.poll() is not None, "the worker's end", 30)
            assert process.returncode == 0


@pytest.mark.skipif(missing() is not None, reason="the extra ai is not installed")
def test_a_models_round_has_the_names_of_the_conventions_for_generative_ai(
    client: Client, settings: Settings, collected: Collector
) -> None:
    script = [
        Says("", [("add", {"a": 1, "b": 2})], tokens=(120, 7)),
        Says("", [("finish", {"answer": 3})]),
    ]
    with (
        chat_server(script, {1: [Fails(500)]}, models=("scripted",)) as server,
        traced_to(collected),
    ):
        engine = Runtime(
            runtime_of(client).app,
            settings.model_copy(update={"model_url": server.url, "retry_delay_seconds": 0.01}),
        )
        run = client.submit("adding", "what is 1 + 2?")
        play(engine, run.id)
        engine.write_stats()
        engine.close()
        assert client.get(run.id).answer == 3
    _, rounds = collected.tree(run.id, 4)
    asked, added, failed, _ = rounds
    told = {
        name.removeprefix("gen_ai."): value
        for name, value in asked.attributes.items()
        if name.startswith("gen_ai.")
    }
    assert told == {
        "operation.name": "chat",
        "provider.name": "openai-compatible",
        "request.model": "scripted",
        "response.model": "scripted",
        "response.finish_reasons": ["tool_call"],
        "usage.input_tokens": 120,
        "usage.output_tokens": 7,
    }
    assert (added.attributes["gen_ai.operation.name"], added.attributes["gen_ai.tool.name"]) == (
        "execute_tool",
        "add",
    )
    assert (
        failed.status == ERROR
        and failed.attributes["gen_ai.request.model"] == "scripted"
        and failed["outcome"] == "waiting"
    )
    assert not any(b"1 + 2" in body for body in collected.raw)
