"""``perdure server``, and the server that ``perdure up`` starts."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from perdure import Client
from perdure.worker.cli.commands import server as control_room
from perdure.worker.cli.commands import up as dashboard
from perdure.worker.cli.commands.server import address_of, address_of_socket
from perdure.worker.cli.main import run as perdure_here
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine, CommandProcess, wait_for_line
from tests.support.os_processes import ended
from tests.support.redis_servers import until


def status_of(url: str) -> int | None:
    """Return a GET's status; None without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None


def the_document(process: subprocess.Popen[str]) -> Any:
    """Return the JSON document that it printed first."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_beyond_loopback_it_does_not_listen_without_tokens(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::"):
        assert (
            perdure_here(
                ["server", "--host", host, "--port", "0", "--url", str(settings.redis_url)]
            )
            == 2
        )
        said = capsys.readouterr()
        assert (
            "perdure token create" in said.err and "no token exists" in said.err and said.out == ""
        )


def test_without_its_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_room, "NEEDED", ("no_such_package_anywhere",))
    assert perdure_here(["server"]) == 2
    assert "pip install 'perdure[server]'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_the_runs_and_leaves_with_zero_when_told_to(
    tmp_path: Path, settings: Settings, client: Client, number: signal.Signals
) -> None:
    client.submit("countdown", "x", run_id="r")
    perdure = CommandProcess(tmp_path, settings)
    with perdure.running("server", "--port", "0", "--json") as server:
        told = the_document(server)
        assert told["pid"] == server.pid
        with urllib.request.urlopen(f"{told['url']}/api/v1/runs/r", timeout=10) as answer:
            assert json.load(answer)["goal"] == "x"
        second = perdure("server", "--port", str(urlsplit(told["url"]).port))
        assert (
            second.code == 1
            and "the port is in use" in second.err
            and len(second.err.splitlines()) == 1
        )
        server.send_signal(number)
        out, said = server.communicate(timeout=30)
    assert (server.returncode, out, said) == (0, "", "")


@pytest.mark.slow
def test_who_follows_a_run_sees_the_stream_end_whole_when_the_server_leaves(
    tmp_path: Path, settings: Settings, client: Client
) -> None:
    client.submit("countdown", "x", run_id="r")  # no worker plays it: its events never end
    perdure = CommandLine(tmp_path, settings)
    with perdure.running("server", "--port", "0", "--json") as server:
        stream = http.client.HTTPConnection(
            urlsplit(the_document(server)["url"]).netloc, timeout=30
        )
        stream.request("GET", "/api/v1/runs/r/events", headers={"Accept": "text/event-stream"})
        answer = stream.getresponse()
        while answer.readline() != b"event: submitted\n":
            assert not answer.closed
        server.send_signal(signal.SIGTERM)
        assert answer.read().endswith(b"\n\n")  # IncompleteRead, where it was cut off
        stream.close()
        _, said = server.communicate(timeout=30)
    assert (server.returncode, said) == (0, "")


@pytest.mark.slow
def test_up_serves_the_dashboard_at_one_address_for_as_long_as_it_lives(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path)
    with closing(address_of("127.0.0.1", 0).listen()) as free:
        port = address_of_socket(free).port
    with perdure.running("up", "--concurrency", "2", "--port", str(port), "--json") as up:
        url = the_document(up)["dashboard"]
        assert url == f"http://127.0.0.1:{port}"
        wait_for_line(up, "serving at")
        assert status_of(f"{url}/api/v1/runs/none") == 404
        with perdure.running("up", "--concurrency", "2", "--json") as second:
            assert the_document(second)["dashboard"] == url
            second.send_signal(signal.SIGINT)
            second.communicate(timeout=30)
        [pid] = [
            int(each)
            for each in Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text().split()
            if _is_a_server(each)
        ]
        os.kill(pid, signal.SIGKILL)
        until(lambda: ended(pid), "its end")
        assert status_of(f"{url}/api/v1/runs/none") == 404, (
            "what is asked meanwhile waits for the next one"
        )
        wait_for_line(up, "the dashboard ended (signal 9); starting another")
        up.send_signal(signal.SIGINT)
        _, said = up.communicate(timeout=30)
    assert up.returncode == 0 and "worker and server stopped" in said
    assert status_of(f"{url}/api/v1/runs/none") is None
    assert not (tmp_path / "state" / "perdure" / dashboard.FILE).exists()


def _is_a_server(pid: str) -> bool:
    return b"\0server\0" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.slow
def test_a_second_up_takes_the_dashboard_over_with_the_server(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path)
    with closing(address_of("127.0.0.1", 0).listen()) as free:
        port = address_of_socket(free).port
    with perdure.running("up", "--concurrency", "2", "--port", str(port), "--json") as first:
        url = the_document(first)["dashboard"]
        wait_for_line(first, "serving at")
        words = ("up", "--concurrency", "2", "--port", str(port), "--json")
        with perdure.running(*words) as second:
            assert the_document(second)["dashboard"] == url
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=30)
            until(lambda: status_of(f"{url}/api/v1/health") == 200, "the dashboard to be back", 30)
            second.send_signal(signal.SIGINT)
            _, said = second.communicate(timeout=30)
    assert "worker and server stopped" in said


@pytest.mark.slow
def test_an_up_without_a_dashboard_says_so(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path)
    with perdure.running("up", "--no-server", "--json") as up:
        assert the_document(up)["dashboard"] is None
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=30)
