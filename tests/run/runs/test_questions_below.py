"""A run below asks a person: callers of the run above learn it, with the way to answer."""

from __future__ import annotations

import io
import json
import threading
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from perdure import Client, Run, RunNotFound, RunStatus
from perdure.worker.cli.views import follow as module
from perdure.worker.cli.views.follow import follow
from perdure.worker.cli.views.lines import JsonLinesView, LinesView
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving

MODULES = ("tests.support.example_flows.child_runs",)


pytestmark = pytest.mark.settings(flow_modules=MODULES)


def asked(client: Client, run: Run) -> list[str]:
    return [waiting.run_id for waiting in client.inbox(below=run.id)]


def test_the_inbox_of_a_tree_has_what_is_below_a_run_and_no_more(
    client: Client, driver: Driver
) -> None:
    other = client.submit("errand", "other", {"child": {"ask": True}})
    inner = {"child": {"ask": True}}
    run = client.submit("scouts", "g", {"children": [inner, {"ask": True}, {}]})
    driver.play()
    errand, chore, done = client.runs(parent=run.id).runs
    (grandchild,) = client.runs(parent=errand.id).runs
    assert done.status is RunStatus.COMPLETED
    assert sorted(asked(client, run)) == sorted([grandchild.id, chore.id])
    assert asked(client, errand) == [grandchild.id]
    assert asked(client, grandchild) == [] and len(asked(client, other)) == 1
    first = client.inbox(limit=1, below=run.id)
    second = client.inbox(limit=1, below=run.id, cursor=first.cursor)
    assert {each.run_id for each in [*first, *second]} == {grandchild.id, chore.id}
    assert client.inbox(below=run.id, submitted_by="nobody").waiting == []
    with pytest.raises(RunNotFound):
        client.inbox(below="no-such-run")


def test_the_inbox_says_for_which_run_a_child_asks(
    client: Client, driver: Driver, settings: Settings, tmp_path: Path
) -> None:
    inner = {"child": {"ask": True}}
    run = client.submit("scouts", "g", {"children": [inner, {"ask": True}]})
    single = client.submit("chore", "g", {"ask": True})
    driver.play()
    told = {each.run_id: (each.root, each.root_flow) for each in client.inbox()}
    assert told.pop(single.id) == (None, None)
    assert list(told.values()) == [(run.id, "scouts")] * 2
    perdure = CommandLine(tmp_path, settings)
    lines = [line.split("\t") for line in perdure("inbox").out.splitlines()]
    rows = {line[0]: line[-1] for line in lines}
    assert rows == {single.id: "", **dict.fromkeys(told, f"run {run.id} (scouts)")}
    members = {each["run_id"]: each for each in perdure("inbox", "--json").json}
    assert (members[min(told)]["root"], members[min(told)]["root_flow"]) == (run.id, "scouts")
    with serving(settings) as url, Visitor(url) as visitor:
        assert f"for {run.id} scouts" in visitor.see("/inbox").text


def test_whoever_resumes_the_run_above_is_led_to_the_question(
    client: Client, driver: Driver, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit("errand", "g", {"child": {"ask": True}})
    driver.play()
    (child,) = asked(client, run)
    perdure = CommandLine(tmp_path, settings)
    for options in (("--approve",), ("--answer", '"yes"')):
        done = perdure("resume", run.id, *options)
        assert done.code == 8
        assert f"run {child} (chore) below it asks a person: go on? To answer: " in done.err
        assert f"perdure resume {child} --answer '\"your answer\"'" in done.err
    with serving(settings) as url, Visitor(url) as visitor:
        page = visitor.see(f"/runs/{run.id}")
        assert "A run below waits for you" in page.text and "go on?" in page.text
        assert f'href="/runs/{child}#asked"' in page.html
        client.resume(child, "yes")
        assert "A run below waits" not in visitor.see(f"/runs/{run.id}").text


def test_wait_tells_of_the_question_and_how_to_answer_it(
    client: Client, driver: Driver, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit("errand", "g", {"child": {"ask": True}})
    driver.play()
    (child,) = asked(client, run)
    done = CommandLine(tmp_path, settings)("wait", run.id, "--timeout", "1s")
    question, way, end = done.err.splitlines()
    assert (done.code, done.out) == (9, "")
    assert question == f"run {child} (chore), for which this run waits, asks a person: go on?"
    assert way == f"go on: perdure resume {child} --answer '\"your answer\"'"
    assert f"run {run.id} is still running" in end and "after 1 s" in end


@pytest.mark.parametrize("view", [LinesView(), JsonLinesView()])
def test_watch_tells_of_each_question_once_and_goes_on(
    client: Client,
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
    view: LinesView | JsonLinesView,
) -> None:
    monkeypatch.setattr(module, "BELOW_SECONDS", 0.0)
    run = client.submit("errand", "g", {"child": {"ask": True}})
    driver.play()
    (child,) = asked(client, run)
    out, ended = io.StringIO(), list[Run]()
    with redirect_stdout(out):
        thread = threading.Thread(target=lambda: ended.append(follow(client, run.id, view)))
        thread.start()
        until(lambda: child in out.getvalue(), "the question")
        client.resume(child, "yes")
        driver.play()
        thread.join(20)
    assert ended[0].status is RunStatus.COMPLETED
    if isinstance(view, LinesView):
        assert out.getvalue().count("asks a person: go on?") == 1
        assert f"go on: perdure resume {child} --answer" in out.getvalue()
    else:
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        (told,) = [line["waiting"] for line in lines if line["type"] == "asked_below"]
        assert (told["run_id"], told["question"]) == (child, "go on?") and told["how"]
