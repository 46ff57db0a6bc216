"""Runs of very many rounds in worker processes, and their display by commands and pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perdure import Client, RemoteClient, Run, Settings
from tests.support.command_line import CommandLine
from tests.support.counted_runs import counted, long
from tests.support.example_flows import long_runs  # noqa: F401 -- registers flows
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import until
from tests.support.threaded_server import serving
from tests.support.workers import workers

__all__ = ["long"]

#: A worker whose lease lapses soon after it is killed.
QUICK = {
    "PERDURE_FLOW_MODULES": "tests.support.example_flows.long_runs",
    "PERDURE_HEARTBEAT_SECONDS": "0.2",
    "PERDURE_LEASE_SECONDS": "1",
}
MODULES = ("tests.support.example_flows.long_runs",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.mark.parametrize("fetch", [True, False])
def test_a_bounded_run_is_the_same_with_and_without_the_fast_path(
    client: Client, settings: Settings, fetch: bool
) -> None:
    settings = settings.model_copy(update={"fetch": fetch})
    run = client.submit("counts_bounded", "g", {"rounds": 60, "every": 25})
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULES[0], PERDURE_FETCH=str(fetch).lower()):
        ended = client.wait(run.id, 30)
    assert ended.answer == ["Count", 60, 59, [57, 58, 59]]
    assert (ended.details["forgotten"], ended.details["generation"]) == (57, 2)


def test_no_signal_is_lost_or_taken_twice_while_a_run_renews_and_its_workers_are_killed(
    client: Client, settings: Settings
) -> None:
    run = client.submit("bounded_collector", "g")

    def taken() -> int:
        return client._store.signals.counts_of(run.id, ["item"])["item"][0]

    for sent in (0, 700):
        for each in range(sent, sent + 350):  # half of them come before the worker does
            client.signal(run.id, "item", each, key=str(each))
        with workers(1, settings, **QUICK):
            for each in range(sent + 350, sent + 700):
                client.signal(run.id, "item", each, key=str(each))
                client.signal(run.id, "item", each, key=str(each))
            until(lambda aim=sent + 500: taken() >= aim, "most of the signals", 60)  # type: ignore[misc]
    with workers(1, settings, **QUICK):
        client.signal(run.id, "item", None)
        ended = client.wait(run.id, 60)
    assert ended.answer == {"taken": 1_400, "wrong": []}
    assert ended.details["generation"] == 14


def test_people_are_told_what_is_gone(
    client: Client, settings: Settings, long: Run, tmp_path: Path
) -> None:
    perdure = CommandLine(tmp_path, settings)
    oldest = next(client.events(long.id))
    watched = perdure("watch", long.id).out.splitlines()
    assert "older events are gone" in watched[0] and f"step {oldest.step}" in watched[0]
    first = json.loads(perdure("watch", long.id, "--json").out.splitlines()[0])
    assert first["type"] == "trimmed" and first["data"]["before"] > first["id"]
    shown = perdure("show", long.id, "--transcript").out
    assert "3 of 300 turns are left" in shown and "(turns 1 to 297 are gone)" in shown
    assert "298. count" in shown and "older events are gone" in shown
    with serving(settings) as url, Visitor(url) as visitor:
        page = visitor.see(f"/runs/{long.id}")
        assert "3 turns left of 300" in page.text
        last = re.findall(r'href="([^"]*before=[^"]*)"', page.html)
        while last:
            page = visitor.see(last[-1])
            last = re.findall(r'href="([^"]*before=[^"]*)"', page.html)
        assert "older events are gone" in page.text
        remote = RemoteClient(url)
        try:
            events = list(client.events(long.id))
            assert list(remote.events(long.id)) == events
            assert list(remote.events(long.id, follow=False)) == events
            assert list(remote.events(long.id, events[0].id)) == events[1:]
        finally:
            remote.close()


def test_people_are_told_of_the_generation(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = counted(client, settings, "counts", rounds=15, every=10)
    perdure = CommandLine(tmp_path, settings)
    assert "begins anew: generation 1" in perdure("watch", run.id).out
    assert "generation" in perdure("show", run.id).out
    with serving(settings) as url, Visitor(url) as visitor:
        page = visitor.see(f"/runs/{run.id}")
        assert "generation 1" in page.text and "begins anew: generation 1" in page.text
