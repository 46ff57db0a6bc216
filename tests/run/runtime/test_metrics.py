"""The content of ``/metrics``: runs, rounds, queues and workers, in any number and with any damage."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.metrics.exposition import exposition
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.keys import INDEXES
from tests.support.example_flows import (
    paid_decisions,
    rings,  # noqa: F401 -- registers flows
)
from tests.support.in_process_runtime import played
from tests.support.prometheus import read, scrape
from tests.support.redis_commands import monitored
from tests.support.redis_servers import CrashableServer, until
from tests.support.runs import claim, commit_end, handed_on, new_run, pause_here, stop

ROOT = Path(__file__).parents[3]


def families(text: str) -> set[str]:
    """Return the metric names in the table of the documentation, in the alerts, or on the lines of
    type in the exposition.
    """
    found = set(re.findall(r"\bperdure_[a-z_]+", text))
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in found}


def test_the_documentation_lists_what_is_told_and_nothing_else(client: Client) -> None:
    told = set(
        families(
            "\n".join(
                line
                for line in exposition(client)[0].decode().splitlines()
                if line.startswith("# TYPE")
            )
        )
    )
    listed = families(
        "\n".join(
            line
            for line in (ROOT / "docs" / "operations" / "metrics.md")
            .read_text("utf-8")
            .splitlines()
            if line.startswith("|")
        )
    )
    assert listed == told | {"perdure_sweep_age_seconds"}, (
        "that one is told once somebody has swept"
    )


def test_alerts_ask_for_nothing_that_is_not_told() -> None:
    listed = families((ROOT / "docs" / "operations" / "metrics.md").read_text("utf-8"))
    assert families((ROOT / "config" / "prometheus" / "alerts.yml").read_text("utf-8")) <= listed


def test_runs_are_told_by_flow_and_status(store: Store, client: Client) -> None:
    for run_id in ("queued", "running", "asking", "stopped", "completed"):
        new_run(store, run_id)
    claim(store, "running")
    pause_here(store, claim(store, "asking"))
    stop(store, "now", run_id="stopped")
    commit_end(store, claim(store, "completed"))
    told = scrape(client)
    for status in ("queued", "running", "interrupted", "stopped"):
        assert told.value("perdure_runs", flow="ring", status=status) == 1, status
    assert told.value("perdure_runs_ended_total", flow="ring", status="completed") == 1
    assert told.value("perdure_runs_ended_total", flow="ring", status="errored") == 0
    assert told.value("perdure_runs_stopped_total", flow="ring", mode="now") == 1
    assert told.value("perdure_runs_submitted_total", flow="ring") == 5
    assert [told.value("perdure_runs_listed", index=index) for index in INDEXES] == [2, 1, 1, 1, 0]


def test_rounds_are_told_by_what_came_of_them_with_their_durations(client: Client) -> None:
    runs = [client.submit("ledger", "go", {"rounds": rounds}).id for rounds in (9, 1)]
    played(client, *runs)
    told = scrape(client)
    of = {"flow": "ledger", "node": "Controller"}
    assert told.value("perdure_rounds_total", **of, outcome="continued") == 1
    assert told.value("perdure_rounds_total", **of, outcome="completed") == 1
    assert told.value("perdure_round_duration_seconds_count", **of) == 2
    assert told.value("perdure_round_duration_seconds_bucket", **of, le="+Inf") == 2
    assert told.value("perdure_round_wait_seconds_count", queue="controller") == 2


def test_tokens_and_money_are_told(client: Client, tmp_path: Path) -> None:
    run = client.submit("payer", "3", {"account": str(tmp_path / "account")})
    played(client, run.id)
    told = scrape(client)
    assert (
        told.value("perdure_tokens_total", flow="payer", kind="unspecified")
        == paid_decisions.TOKENS
    )
    assert told.value("perdure_cost_dollars_total", flow="payer") == pytest.approx(0.01)


def test_tokens_from_a_cache_are_told_apart(client: Client) -> None:
    stats = RoundStats()
    stats.spent("cacher", {"tokens": 9, "input_tokens": 7, "output_tokens": 2, "cached_tokens": 5})
    stats.flush(client._store)
    told = scrape(client)
    assert told.value("perdure_cached_tokens_total", flow="cacher") == 5
    assert told.value("perdure_tokens_total", flow="cacher", kind="input") == 7
    assert told.value("perdure_tokens_total", flow="cacher", kind="unspecified") == 0


def test_queues_are_told_with_the_age_of_the_oldest_message(client: Client) -> None:
    client.submit("ledger", "go", {"rounds": 9})
    client.submit("ledger", "go", {"rounds": 9})
    until(
        lambda: (
            (scrape(client).value("perdure_queue_oldest_seconds", queue="controller") or 0) > 0.05
        ),
        "the message to grow old",
    )
    told = scrape(client)
    assert told.value("perdure_queue_messages", queue="controller") == 2
    assert told.value("perdure_queue_pushed_total", queue="controller") == 2
    assert told.value("perdure_queue_oldest_seconds", queue="executor") == 0


def test_rounds_in_the_queue_of_a_flow_set_are_counted_with_those_of_their_role(
    client: Client,
) -> None:
    """They wait for workers of the role, too: alerts and KEDA read these numbers."""
    store = client._store
    queue, _ = handed_on(client, 3)
    until(
        lambda: (
            (scrape(client).value("perdure_queue_oldest_seconds", queue="controller") or 0) > 0.05
        ),
        "the message to grow old",
    )
    client.submit("ledger", "go", {"rounds": 9})
    told = scrape(client)
    assert told.value("perdure_queue_messages", queue="controller") == 4
    assert told.value("perdure_queue_handed_on_messages", queue="controller") == 3
    assert (told.value("perdure_queue_oldest_seconds", queue="controller") or 0) > 0.05
    assert told.value("perdure_queue_messages", queue="executor") == 0
    assert told.value("perdure_queue_handed_on_messages", queue="executor") == 0
    store.fleet.announce("able", {"lists": [queue]}, 0, -1)  # silent since 1970
    assert scrape(client).value("perdure_queue_messages", queue="controller") == 1


def test_what_a_worker_announces_as_its_queues_spoils_no_scrape(client: Client) -> None:
    store = client._store
    client.submit("ledger", "go", {"rounds": 9})
    for lists in (["perdure", 1, None], "x", [store.keys.due], [f"{store.keys.prefix}.executor"]):
        store.fleet.announce("odd", {"lists": lists}, store.time(), 0)
        assert scrape(client).value("perdure_queue_messages", queue="controller") == 1


def test_a_message_that_is_none_has_no_age(client: Client) -> None:
    """Nor has a message that its run has left behind: any program may write there."""
    run = client.submit("ledger", "go", {"rounds": 9})
    keys, redis = client._store.keys, client._store.redis
    message = redis.rpop(keys.queue("controller"))
    client.request_stop(run.id)
    for text in (message, "x", "[]", '{"body": "x"}', '{"body": "W10="}', '{"body": "W1tdXQ=="}'):
        redis.lpush(keys.queue("controller"), text)
        told = scrape(client)
        assert told.value("perdure_queue_messages", queue="controller") == 1
        assert told.value("perdure_queue_oldest_seconds", queue="controller") == 0
        redis.delete(keys.queue("controller"))


def test_the_memory_of_the_server_and_its_limit_are_told(client: Client) -> None:
    redis = client._store.redis
    told = scrape(client)
    assert (told.value("perdure_server_memory_bytes") or 0) > 100_000
    assert told.value("perdure_server_memory_limit_bytes") == 0
    redis.config_set("maxmemory", "100mb")
    try:
        assert scrape(client).value("perdure_server_memory_limit_bytes") == 100 * 1024 * 1024
    finally:
        redis.config_set("maxmemory", "0")


def test_what_is_overdue_is_told(client: Client) -> None:
    run = client.submit("ledger", "go", {"rounds": 9})
    seconds, _ = client._store.redis.time()
    client._store.redis.zadd(client._store.keys.due, {run.id: (seconds - 100) * 1000})
    told = scrape(client)
    assert told.value("perdure_due_runs") == 1
    assert 100 <= (told.value("perdure_due_oldest_seconds") or 0) < 160


def test_workers_are_told_by_role_and_state(client: Client) -> None:
    now = client._store.time()
    for name, at, info in (
        ("one", now, {"role": "executor", "concurrency": 4, "rounds": 3, "flows": {"mine": {}}}),
        (
            "two",
            now,
            {"role": "executor", "concurrency": 4, "rounds": 1, "draining": True, "flows": {}},
        ),
        (
            "gone",
            now - 60_000,
            {"role": "executor", "concurrency": 4, "rounds": 4, "flows": {"theirs": {}}},
        ),
    ):
        client._store.fleet.announce(name, info, at, 0)
    told = scrape(client)
    states = [
        told.value("perdure_workers", role="executor", state=state)
        for state in ("playing", "draining", "silent")
    ]
    assert states == [1, 1, 1]
    assert told.value("perdure_worker_slots", role="executor") == 8
    assert told.value("perdure_rounds_in_flight", role="executor") == 4
    assert told.value("perdure_runs_submitted_total", flow="mine") == 0, (
        "what living workers play is told before it happens"
    )
    assert told.value("perdure_runs_submitted_total", flow="theirs") is None


def test_paused_flows_and_dead_letters_are_told(client: Client) -> None:
    client._store.pauses.add("mine")
    client._store.redis.lpush(client._store.keys.dead_letters, "a", "b")
    told = scrape(client)
    assert told.value("perdure_flow_paused", flow="mine") == 1
    assert told.value("perdure_dead_letters") == 2


def test_bytes_that_are_no_text_are_told_all_the_same(store: Store, client: Client) -> None:
    store.redis.hset(store.keys.queues, b"runs:queued:\xff\xfe", 1)  # type: ignore[arg-type]
    store.redis.hset(store.keys.paused, b"\xff", "{}")  # type: ignore[arg-type]
    assert scrape(client).values("perdure_runs", status="queued") == 1


DAMAGED = ["x", "", "-1", "nan", "inf", "1e400", "9" * 400, "٣"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_figure_is_left_out_and_the_others_are_told(
    store: Store, client: Client, text: str
) -> None:
    new_run(store)
    for name in (
        "runs:queued:other",
        "runs:queued",
        "runs",
        "moves:freed:other",
        f"{store.keys.queue('executor')}:pushed",
        "swept_at",
    ):
        store.redis.hset(store.keys.queues, name, text)
    figures = [
        ["rounds", "other", "n", "x"],
        ["rounds", "other"],
        ["took", "other", "n", "0.1"],
        ["took_ms", "other", "n"],
        [],
        [[]],
        [1, "a"],
    ]
    for name in [*map(json.dumps, figures), "x", "{}", "[" * 5_000]:
        store.redis.hset(store.keys.metrics, name, text)
    told = scrape(client)
    assert told.value("perdure_runs", flow="ring", status="queued") == 1
    assert told.values("perdure_runs", flow="other") == told.values("perdure_rounds_total") == 0


def test_a_scrape_reads_the_same_however_many_runs_there_are(store: Store, client: Client) -> None:
    """Few exchanges, no look at any run but at those of the oldest messages."""
    scrape(client)
    found = []
    for count in (1, 40):
        for place in range(count):
            new_run(store, f"r{count}-{place}")
        with monitored(client._store) as commands:
            scrape(client)
        found.append(commands)
    assert found[0] == found[1]
    assert sum(found[0].values()) < 30 and not {"SCAN", "KEYS", "ZSCAN", "HSCAN"} & set(found[0])


def test_a_broker_that_does_not_answer_is_told_and_its_queues_are_not(
    server: CrashableServer, prefix: str, tmp_path: Path
) -> None:
    settings = Settings(redis_url=server.url, broker_url=f"unix://{tmp_path}/nobody", prefix=prefix)
    with closing(Client(settings=settings)) as client:
        told = scrape(client)
        assert told.value("perdure_broker_up") == 0
        assert told.value("perdure_queue_messages", queue="controller") is None
        assert told.value("perdure_due_runs") == 0


def test_prometheus_may_ask_for_the_other_format(client: Client) -> None:
    text, content_type = exposition(client, "application/openmetrics-text;version=1.0.0")
    assert content_type.startswith("application/openmetrics-text") and text.endswith(b"# EOF\n")


def test_the_route_answers_as_prometheus_asks(client: Client) -> None:
    from starlette.testclient import TestClient

    from perdure.worker.web import create_app

    with TestClient(create_app(client.settings, client), base_url="http://localhost") as browser:
        answer = browser.get("/metrics")
        assert (
            answer.status_code == 200
            and answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        )
        assert read(answer.text).value("perdure_broker_up") == 1
