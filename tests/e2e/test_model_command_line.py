"""A model by one flag."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from perdure.worker.settings import Settings
from tests.support.chat_server import ChatServer, Says, chat_server
from tests.support.command_line import CommandLine, wait_for_line

SCRIPT = [
    Says("I look.", [("list_files", {})]),
    Says("", [("finish", {"answer": "nothing there"})]),
]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_up_with_the_url_of_a_server_plays_react(tmp_path: Path) -> None:
    work = tmp_path / "workspace"
    work.mkdir()
    perdure = CommandLine(tmp_path, PERDURE_WORKSPACE=str(work))
    with (
        chat_server(SCRIPT) as chat,
        perdure.running("up", "--no-server", "--model-url", chat.url) as up,
    ):
        wait_for_line(up, "worker ready")
        done = perdure("submit", "react", "What is there?", "--watch")
        assert done.code == 0 and "nothing there" in done.out + done.err, done
        assert [each.body["model"] for each in chat.play.asked] == ["scripted", "scripted"]
        up.send_signal(signal.SIGINT)  # killed, it would leave its server behind
        up.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_worker_is_told_model_and_url_by_flags_and_so_are_its_processes(
    tmp_path: Path, settings: Settings
) -> None:
    perdure = CommandLine(
        tmp_path, settings, PERDURE_WORKSPACE=str(tmp_path), PERDURE_MODEL="not-this-one"
    )
    with chat_server(SCRIPT) as chat:
        with perdure.worker(
            "--pool",
            "prefork",
            "--concurrency",
            "1",
            "--model",
            "llama3:8b",
            "--model-url",
            chat.url,
        ):
            done = perdure("submit", "react", "What is there?", "--watch")
        assert done.code == 0, done
        assert asked_models(chat) == ["llama3:8b"] * 2 and chat.named == 0


def asked_models(chat: ChatServer) -> list[str]:
    return [each.body["model"] for each in chat.play.asked]
