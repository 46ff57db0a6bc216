"""RemoteClient and commands by a URL, with workers and servers that end: events come once each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.client.tokens import Tokens
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.soak.proxy import Proxy
from tests.support import runs as play
from tests.support.command_line import CommandLine
from tests.support.network_proxy import proxy, through
from tests.support.server_processes import server_processes
from tests.support.threaded_server import serving
from tests.support.workers import WorkerProcess

__all__ = ["proxy"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_following_and_waiting_go_on_through_a_network_that_is_cut(
    proxy: Proxy, client: Client, worker_process: Callable[..., WorkerProcess]
) -> None:
    worker_process()
    run = client.submit("ledger", "cut", {"rounds": 100, "seconds": 0.04})
    waited: list[RunStatus] = []
    with through(proxy) as remote:
        waiting = threading.Thread(target=lambda: waited.append(remote.wait(run.id, 60).status))
        waiting.start()
        seen = []
        for event in remote.events(run.id):
            seen.append(event)
            if len(seen) % 5 == 0:
                proxy.cut()
        waiting.join()
    assert (
        seen == list(client.events(run.id, follow=False)) and proxy.done["cut"] >= 10
    )  # some find nothing to cut, as it is being connected again
    assert waited == [RunStatus.COMPLETED]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_following_goes_on_at_the_server_that_comes_after(
    settings: Settings, client: Client
) -> None:
    assert settings.redis_url is not None
    store = Store(settings.redis_url, settings.prefix)
    play.new_run(store)
    with server_processes(2, settings) as rooms:
        proxy = Proxy(rooms[0].port)
        proxy.start()
        with through(proxy) as remote:
            events = remote.events("r")
            seen = [next(events)]
            proxy._server = rooms[1].port
            assert rooms[0].terminate() == 0
            play.commit_end(store, play.claim(store, "r"))
            seen += events
        proxy.stop()
    assert seen == list(client.events("r", follow=False))
    store.close()


__all__ = ["proxy"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_commands_talk_to_a_control_room_by_its_url(
    settings: Settings, client: Client, tmp_path: Path
) -> None:
    token = Tokens(client).create("alice", ["read", "submit", "answer", "stop"], None, "test").text
    with serving(settings) as url:
        command = CommandLine(tmp_path, PERDURE_SERVER_URL=url, PERDURE_TOKEN=token)
        run = command(
            "submit", "countdown", "by url", "--input-json", "rounds=2", "--id", "mine", "--json"
        ).json
        assert (run["id"], run["details"]["submitted_by"]) == ("mine", "alice")
        assert [each["id"] for each in command("list", "--url", url, "--json").json] == ["mine"]
        assert (
            command("show", "mine").code == 0
            and command("why", "mine", "--json").json["details"]["run"] == "mine"
        )
        assert command("stop", "mine", "--json").json["requested_by"] == "alice"
        assert command("watch", "mine", "--json").code == 5
        assert command("resume", "mine").code == 0
        refused = command("delete", "mine")
        assert refused.code == 8 and "scope 'admin'" in refused.err
        assert command("list", variables={"PERDURE_TOKEN": "hf_no_one"}).code == 8
        here = command("worker", "--url", url)
        assert here.code == 2 and "needs the state server" in here.err
        assert command("list", variables={"PERDURE_SERVER_URL": "http://127.0.0.1:1"}).code == 7
    assert token not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
