"""JSON logs: every line of a worker is one object, and a line of a round says which."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.redis_servers import until
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, WorkerProcess

FLOWS = """
import logging, threading, warnings
from perdure import Command, ControllerExecutorFlow, Finish, RetryableError, command, register

@register("talker")
class Talker(ControllerExecutorFlow):
    def decide(self, context):
        if len(context.history) == 0:
            if context.attempt == 1:
                raise RetryableError("two\\nlines")
            return Command("talk")
        return Finish("said")

    @command
    def talk(self, context) -> str:
        context.logger.info("by the context", extra={"tokens": 5})
        logging.getLogger("a.library").warning("by a library\\nof two lines")
        thread = threading.Thread(target=context.logger.info, args=("by a thread",))
        thread.start()
        thread.join()
        warnings.warn("a warning", UserWarning)
        return "talked"
"""


def lines_of(process: Any) -> list[dict[str, Any]]:
    """End the process with SIGTERM; return its lines on stderr, each of which must be a JSON
    object.
    """
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "logger", "message", "worker"} <= set(line) for line in lines)
    return lines


def about(lines: list[dict[str, Any]], words: str) -> dict[str, Any]:
    """Return the only line with these words."""
    [found] = [line for line in lines if words in line["message"]]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_every_line_is_an_object_and_a_round_line_names_its_round(
    tmp_path: Path, settings: Settings, client: Client, pool: str
) -> None:
    (tmp_path / "my_flows.py").write_text(FLOWS)
    perdure = CommandLine(
        tmp_path, settings, PERDURE_FLOW_MODULES="my_flows", PERDURE_RETRY_DELAY_SECONDS="0.01"
    )
    with perdure.worker("--log-format", "json", "--pool", pool, "--concurrency", "1") as process:
        assert perdure("submit", "talker", "x", "--id", "r").code == 0
        assert client.wait("r", 30).answer == "said"
        owner = next(worker["name"] for worker in client.workers())
        lines = lines_of(process)
    executed = {"run_id": "r", "epoch": 0, "step": 1, "attempt": 1, "node": "Executor"}
    for words in ("by the context", "by a library", "by a thread", "a warning"):
        line = about(lines, words)
        assert {name: line[name] for name in executed} == executed, line
        assert line["worker"].partition(":")[0] == owner.partition(":")[0]
    assert about(lines, "by the context")["tokens"] == 5
    failed = about(lines, "the round failed")
    assert (failed["run_id"], failed["step"], failed["attempt"], failed["node"]) == (
        "r",
        0,
        1,
        "Controller",
    )
    assert (
        failed["error"] == "RetryableError: two\nlines"
        and "Traceback" in failed["traceback"]
        and failed["logger"] == "perdure.rounds"
    )


@pytest.mark.slow
def test_lines_outside_a_round_carry_no_run(tmp_path: Path, settings: Settings) -> None:
    with CommandLine(tmp_path, settings, PERDURE_LOG_FORMAT="json").running(
        "worker", "--concurrency", "1"
    ) as process:
        assert process.stderr is not None
        ready = json.loads(process.stderr.readline())
        assert "worker ready" in ready["message"] and "run_id" not in ready
        assert all("run_id" not in line for line in lines_of(process))


@pytest.mark.slow
def test_the_sweep_says_which_run_it_speaks_of(
    tmp_path: Path, settings: Settings, client: Client
) -> None:
    client.submit("countdown", "x", {"rounds": 1, "seconds": 600}, run_id="long")
    with CommandLine(tmp_path, settings).worker("--concurrency", "1") as process:
        until(
            lambda: (found := client.get("long")).phase == "leased" and found.state.step == 1,
            "the long round to begin",
        )
        process.kill()
        process.wait(10)
    with CommandLine(tmp_path, settings, PERDURE_LOG_FORMAT="json").worker(
        "--concurrency", "1"
    ) as process:
        next(event for event in client.events("long") if event.type == "lost")
        client.request_stop("long", "now")
        line = about(lines_of(process), "its worker died")
    assert line["run_id"] == "long" and line["logger"] == "perdure.sweep"


@pytest.mark.slow
def test_celery_on_the_shipped_app_logs_the_same_way(settings: Settings, client: Client) -> None:
    process = WorkerProcess(settings, "--loglevel", "INFO", PERDURE_LOG_FORMAT="json", SHOW="1")
    with closing(process):
        process.ready()
        client.wait(
            client.submit("countdown", "x", {"rounds": 1}).id, 30
        )  # so Celery has logged that it received a task
        process.process.send_signal(signal.SIGTERM)
        _, said = process.process.communicate(timeout=30)
    spoken = [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]
    assert any(line["logger"].startswith("celery.") for line in spoken)
