"""Bad input on the command line: one clear sentence, the right exit code, no traceback, nothing
stored.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click import UsageError

from perdure import Client
from perdure.worker.cli.commands.resume import read_json
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import driving

DEEP = "[" * 300 + "]" * 300
TOO_DEEP_TO_PARSE = "[" * 60_000 + "]" * 60_000

#: Submissions that are refused: arguments, exit code, part of the error.
REFUSED: dict[str, tuple[list[str | bytes], int, str]] = {
    "unknown flow": (["countdwn", "x"], 3, "did you mean 'countdown'"),
    "missing inputs": (["bisect", "x"], 2, "repo"),
    "unknown input": (["countdown", "x", "--input", "round=3"], 2, "no input named round"),
    "wrong input": (["countdown", "x", "--input", "rounds=many"], 2, "rounds"),
    "a list as text": (["countdown", "x", "--input", "rounds=[3]"], 2, "--input-json 'rounds=[3]'"),
    "an input without a name": (["countdown", "x", "--input", "3"], 2, "KEY=VALUE"),
    "an input given twice": (
        ["countdown", "x", "--input", "rounds=3", "--input", "rounds=4"],
        2,
        "twice",
    ),
    "an input given both ways": (
        ["countdown", "x", "--input", "rounds=3", "--input-json", "rounds=4"],
        2,
        "twice",
    ),
    "goal over the limit": (["countdown", "x" * 65_537], 2, "max_goal_bytes"),
    "NaN": (["question", "x", "--input-json", "number=NaN"], 2, "number"),
    "no JSON": (["question", "x", "--input-json", "word=yes"], 2, "is not JSON"),
    "a 300-deep list": (["question", "x", "--input-json", f"deep={DEEP}"], 2, "levels deep"),
    "a list too deep to be read": (
        ["question", "x", "--input-json", f"deep={TOO_DEEP_TO_PARSE}"],
        2,
        "nested too deep",
    ),
    "a lone surrogate in the goal": (["question", b"caf\xe9"], 2, "surrogate"),
    "a lone surrogate in an input": (["question", "x", "--input", b"word=caf\xe9"], 2, "surrogate"),
    "a lone surrogate in JSON": (
        ["question", "x", "--input-json", r'word="\ud800"'],
        2,
        "surrogate",
    ),
    "a lone surrogate in a label": (["question", "x", "--label", b"word=caf\xe9"], 2, "surrogate"),
    "an id that cannot be one": (["question", "x", "--id", "a b"], 2, "run id"),
    "a node that is none": (["question", "x", "--interrupt-before", "Nobody"], 2, "Executor"),
    "no round at all": (["question", "x", "--max-rounds", "0"], 2, "max_rounds"),
    "a deadline that has passed": (["question", "x", "--deadline", "-1"], 2, "deadline"),
    "a flow only": (["question"], 2, "GOAL"),
}


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandLine(tmp_path, settings)


@pytest.fixture
def stored(server: CrashableServer, prefix: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_submission_is_a_sentence_and_stores_nothing(
    perdure: CommandLine, stored: redis.Redis, prefix: str, case: str
) -> None:
    arguments, code, words = REFUSED[case]
    done = perdure("submit", *arguments)
    assert done.code == code, done.err
    assert words in done.err and done.out == ""
    assert len(done.err) < 1500
    assert keys_under(stored, prefix) == []


def test_an_id_or_key_in_use_is_not_possible_in_this_state(perdure: CommandLine) -> None:
    assert perdure("submit", "question", "x", "--id", "mine", "--idempotency-key", "k").code == 0
    again = perdure("submit", "question", "y", "--id", "mine")
    assert again.code == 8 and "mine" in again.err
    other = perdure("submit", "question", "y", "--idempotency-key", "k")
    assert other.code == 8 and "different content" in other.err
    same = perdure("submit", "question", "x", "--idempotency-key", "k")
    assert same.code == 0 and same.out.strip() == "mine"
    assert len(perdure("list", "--json").json) == 1


def test_what_the_state_does_not_allow_is_refused_and_changes_nothing(
    perdure: CommandLine, client: Client
) -> None:
    client.submit("countdown", "x", run_id="live")
    before = client.get("live").to_dict()
    for arguments in (["resume", "live"], ["retry", "live"], ["delete", "live"]):
        done = perdure(*arguments)
        assert done.code == 8 and "live is queued" in done.err, done.err
    assert client.get("live").to_dict() == before


def test_resume_of_a_running_run_and_retry_or_stop_of_a_completed_one_are_refused(
    perdure: CommandLine, client: Client, settings: Settings
) -> None:
    with driving(settings) as driver:
        client.submit("countdown", "x", {"rounds": 0}, run_id="done")
        driver.play()
        client.submit("countdown", "x", {"rounds": 1}, run_id="busy")
        message = driver.take()
        assert message is not None
        driver.engine.rounds.run(*message)
    for arguments, words in (
        (("resume", "busy"), "busy is running"),
        (("retry", "done"), "done is completed"),
        (("stop", "done"), "done has already completed"),
    ):
        refused = perdure(*arguments)
        assert refused.code == 8 and words in refused.err, refused
    statuses = [client.get(run_id).status.value for run_id in ("busy", "done")]
    assert statuses == ["running", "completed"]


def test_an_unknown_run_is_not_found(perdure: CommandLine) -> None:
    for command in ("show", "watch", "stop", "resume", "retry", "delete"):
        done = perdure(command, "nobody")
        assert done.code == 3 and "'nobody'" in done.err, (command, done)


def test_a_corrupt_run_is_told_as_damaged_and_left_alone(
    perdure: CommandLine, client: Client, stored: redis.Redis, prefix: str
) -> None:
    client.submit("countdown", "x", run_id="hurt")
    stored.hset(f"{prefix}:run:hurt", "step", "many")
    before = stored.hgetall(f"{prefix}:run:hurt")
    for command in ("show", "watch", "stop", "resume", "retry"):
        done = perdure(command, "hurt")
        assert done.code == 1 and "hurt" in done.err, (command, done)
        assert "internal error" not in done.err, (command, done)
    assert stored.hgetall(f"{prefix}:run:hurt") == before


def test_a_wrong_url_is_a_sentence_without_its_password(perdure: CommandLine) -> None:
    wrong = (
        "ftp://localhost:6379",
        "redis://localhost:port/0",
        "redis://localhost:0/0",
        "redis://localhost/first",
        "unix://",
        "localhost",
    )
    for url in wrong:
        done = perdure("list", "--url", url)
        assert done.code == 2 and "invalid server URL" in done.err, (url, done)
    for wrong_place in ("ftp://me:secret@localhost:1/0", "http://me:secret@localhost:1/0"):
        done = perdure("list", "--url", wrong_place)
        assert done.code in (2, 7) and "secret" not in done.err, (wrong_place, done)


def test_a_server_that_does_not_answer_is_no_server(perdure: CommandLine, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(
            ("127.0.0.1", 0)
        )  # bound and not listening: no other process can take it, and it refuses
        refused = f"redis://:secret@127.0.0.1:{free.getsockname()[1]}/0"
        for url in (refused, f"unix://{tmp_path}/none.sock", "redis://no-such-host.invalid:6379/0"):
            done = perdure("submit", "countdown", "x", "--url", url)
            assert (
                done.code == 7 and "no server answers at" in done.err and "secret" not in done.err
            ), (url, done)


def test_without_any_server_the_sentence_says_how_to_get_one(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 6379))
        except OSError:
            assert "CI" not in os.environ, "in continuous integration nothing listens there"
            pytest.skip("there is a server on localhost:6379")
        done = CommandLine(tmp_path)("list")
    assert done.code == 7 and "perdure up" in done.err and done.out == ""


def test_an_unknown_setting_or_command_names_the_nearest_known(perdure: CommandLine) -> None:
    setting = perdure("list", variables={"PERDURE_LEASE_SECOND": "3"})
    assert setting.code == 2 and "lease_seconds" in setting.err
    command = perdure("submitt")
    assert command.code == 2 and "'submit'" in command.err


def test_an_answer_of_one_word_is_a_text() -> None:
    assert read_json("--answer", "yes") == "yes" and read_json("--payload", "größer") == "größer"
    assert read_json("--answer", "true") is True and read_json("--answer", "5") == 5
    for text in ("True", "None", "{a", "yes do", "'yes'", "5x", ""):
        with pytest.raises(UsageError, match="--answer expects JSON"):
            read_json("--answer", text)


def test_an_answer_that_is_no_json_is_shown_how_to_be_quoted(perdure: CommandLine) -> None:
    done = perdure("resume", "any", "--answer", "yes, do")
    assert done.code == 2 and """--answer '"yes, do"'""" in done.err
