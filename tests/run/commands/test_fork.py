"""The command ``perdure fork``, as a process, against the state server and an HTTP server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.command_line import CommandLine
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving


@pytest.fixture(params=["state server", "HTTP server"])
def perdure(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Settings
) -> Iterator[CommandLine]:
    """A command line for one of the servers."""
    if request.param == "state server":
        yield CommandLine(tmp_path, settings)
        return
    with serving(settings) as url:
        yield CommandLine(tmp_path, PERDURE_SERVER_URL=url)


def test_a_run_is_forked_and_errors_say_where_it_can_be(
    client: Client, driver: Driver, perdure: CommandLine
) -> None:
    old = client.submit("countdown", "g", {"rounds": 3})
    driver.play()
    before = client.transcript(old.id)

    done = perdure("fork", old.id, "4", "--input", "rounds=5", "--goal", "another", "--id", "made")
    assert (done.code, done.out) == (0, "made\n"), done
    assert f"forked from {old.id} before step 4" in done.err and "perdure watch made" in done.err
    driver.play()
    fork = client.get("made")
    assert (fork.goal, fork.inputs["rounds"]) == ("another", 5)
    assert (fork.answer, client.get(old.id).answer) == (
        "counted down from 5",
        "counted down from 3",
    )
    observed = [turn["observation"] for turn in client.transcript("made")["history"]]
    assert observed == [2, 1, 2, 1, 0]

    printed = perdure("fork", old.id, "2", "--json")
    assert printed.code == 0, printed
    origin = printed.json["details"]["forked"]
    assert (origin["run"], origin["step"], origin["turns"]) == (old.id, 2, 1)
    assert printed.json == client.get(printed.json["id"]).to_dict()

    count = len(client.runs())
    for words, code, text in (
        ((old.id, "3"), 8, "node Executor: a fork begins at Controller; it can be forked at 0, 2"),
        ((old.id, "99"), 2, "no step 99 to begin at"),
        ((old.id, "2", "--input", "round=5"), 2, "round"),
        ((old.id, "two"), 2, "'two' is not a valid integer"),
        ((old.id,), 2, "Missing argument 'STEP'"),
        (("nothing", "0"), 3, "nothing"),
    ):
        refused = perdure("fork", *words)
        assert refused.code == code and text in refused.err and not refused.out, refused
    assert len(client.runs()) == count
    assert client.transcript(old.id) == before
