"""config/redis.acl: each user is tried with every command of a real server, on keys of ours and of
others, and inside scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from perdure.worker.store import Claim, PrefetchRequest, Store
from perdure.worker.store.scripts import TRANSITIONS, source
from tests.support.acl_permissions import EXAMPLES, FOREIGN, KEYLESS, OURS, ROLES, example
from tests.support.acl_server import ACL, LockedServer, locked, password
from tests.support.runs import LEASE, START, Fetches, commit_end, new_run, try_claim

__all__ = ["locked"]

#: How servers say no, to a command and inside a script.
NO = (
    "has no permissions",
    "No permissions",
    "no permissions",
    "The user executing the script",
    "ACL failure in script",
)
#: Commands that no script may run, for any user.
NOT_IN_SCRIPTS = ("not allowed from script", "Write commands are not allowed")


@pytest.fixture
def operator(locked: LockedServer) -> Iterator[redis.Redis]:
    with locked.login("operator") as client:
        client.set_response_callback("COMMAND", lambda answer, **_: answer)
        yield client
        client.flushall()


def commands_of(operator: redis.Redis) -> dict[str, list[str]]:
    """Return every command and subcommand of the server by its name, as it is sent with the least
    arguments.
    """
    names = operator.execute_command("COMMAND", "LIST")
    calls = {}
    for info in operator.execute_command("COMMAND", "INFO", *names):
        name, arity, subcommands = info[0], info[1], info[9]
        words = name.split("|")
        words += ["1"] * (abs(arity) - len(words))
        if not subcommands:
            calls[name] = words
        elif arity == -1:  # COMMAND by itself is one, too
            calls[name] = [name]
    return calls


def refusal(client: redis.Redis, *words: Any) -> str | None:
    """Return the server's objection to the caller of this command; None if it has none."""
    try:
        client.execute_command(*words)
    except redis.ResponseError as error:
        return str(error) if any(no in str(error) for no in NO) else None
    return None


@pytest.mark.parametrize("name", ROLES)
def test_a_user_has_the_commands_that_its_role_needs_and_none_else(
    locked: LockedServer, operator: redis.Redis, name: str
) -> None:
    role, calls, escapes, starved, called = ROLES[name], commands_of(operator), [], [], 0
    assert len(calls) > 300
    with locked.login(name) as client:
        for command, words in calls.items():
            told = operator.execute_command("ACL", "DRYRUN", name, *words)
            allowed = "to run the" not in str(told)
            if allowed and command not in role.commands:
                escapes.append(command)
            if not allowed and command in role.commands:
                starved.append(command)
            if command not in role.commands:  # and for real
                called += 1
                if refusal(client, *words) is None:
                    escapes.append(f"{command}, called")
    print(
        f"{name}: {len(calls)} commands, {called} called and refused, escapes {len(escapes)}, starved {len(starved)}"
    )
    assert not escapes
    assert set(starved) <= role.commands - set(calls), starved


@pytest.mark.parametrize("name", ROLES)
def test_a_user_reaches_the_keys_of_its_role_and_no_others(
    locked: LockedServer, operator: redis.Redis, name: str
) -> None:
    role = ROLES[name]
    keys: list[tuple[str | None, str]] = [*OURS.items(), *((None, key) for key in FOREIGN)]
    escapes, starved, tried = [], [], 0
    for command in EXAMPLES:
        for kind, key in keys:
            tried += 1
            told = operator.execute_command("ACL", "DRYRUN", name, *example(command, key))
            allowed = told in ("OK", True)
            if allowed and not role.may(command, kind):
                escapes.append((command, key))
            if not allowed and role.may(command, kind):
                starved.append((command, key, told))
    print(f"{name}: {tried} commands on keys, escapes {len(escapes)}, starved {len(starved)}")
    assert not escapes and not starved
    assert role.commands - KEYLESS - role.keyless <= set(EXAMPLES), "a command without an example"


@pytest.mark.slow
@pytest.mark.parametrize("name", ROLES)
def test_a_script_may_do_no_more_than_the_user_who_runs_it(
    locked: LockedServer, operator: redis.Redis, name: str
) -> None:
    """Any Lua, not only ours: each command of the server, and each of the user's own on each key,
    undeclared.
    """
    role, escapes, starved, tried = ROLES[name], [], [], 0
    keys: list[tuple[str | None, str]] = [*OURS.items(), *((None, key) for key in FOREIGN)]
    run = "EVAL" if "eval" in role.commands else "EVAL_RO"
    calls = [
        (command, None, words)
        for command, words in commands_of(operator).items()
        if command not in role.commands
    ]
    calls += [
        (command, kind, example(command, key))
        for command in EXAMPLES
        if not command.startswith("eval")
        for kind, key in keys
    ]
    with locked.login(name) as client:
        for command, kind, words in calls:
            tried += 1
            try:
                client.execute_command(run, "return redis.call(unpack(ARGV))", 0, *words)
                error = ""
            except redis.ResponseError as refused:
                error = str(refused)
            denied = any(no in error for no in (*NO, *NOT_IN_SCRIPTS))
            if not denied and not role.may(command, kind):
                escapes.append((words, error))
            if any(no in error for no in NO) and role.may(command, kind):
                starved.append((words, error))
    print(
        f"{name}: {tried} commands inside scripts, escapes {len(escapes)}, starved {len(starved)}"
    )
    assert not escapes and not starved


def test_a_reader_writes_by_no_script_that_others_have_loaded(
    locked: LockedServer, operator: redis.Redis
) -> None:
    for key in OURS.values():
        operator.set(key, "as it was")
    operator.hset("perdure:run:hash", "phase", "queued")
    shas = [operator.script_load(source(name)) for name in TRANSITIONS]
    shas.append(operator.script_load("return redis.call('set', 'perdure:run:r1', 'mine')"))
    operator.function_load(
        "#!lua name=mine\nredis.register_function('mine', function() return redis.call('del', 'perdure:due') end)"
    )
    before = {key: operator.dump(key) for key in operator.scan_iter()}
    keys = [*OURS.values()][:12]
    tried = 0
    with locked.login("reader") as reader:
        for sha in shas:
            for way in ("EVALSHA", "EVALSHA_RO"):
                for arguments in (
                    [*keys, "flow", "f"],
                    ["perdure:due", "perdure:run:hash", "flow", "f"],
                    [],
                ):
                    count = sum(word.startswith("perdure") for word in arguments)
                    tried += 1
                    try:
                        reader.execute_command(way, sha, count, *arguments)
                    except redis.ResponseError:
                        continue
        for call in (["FCALL", "mine", 0], ["FCALL_RO", "mine", 0]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                reader.execute_command(*call)
    print(f"reader: {tried} scripts of others run")
    assert {key: operator.dump(key) for key in operator.scan_iter()} == before


def test_nobody_leaves_the_first_database(locked: LockedServer) -> None:
    for name in ROLES:
        with locked.login(name) as client:
            assert (
                refusal(client, "SELECT", 1)
                and refusal(client, "SWAPDB", 0, 1)
                and refusal(client, "MOVE", "perdure:due", 1)
            )
            with client.pipeline() as pipe:
                pipe.execute_command("SELECT", 1)
                with pytest.raises(redis.ResponseError):
                    pipe.execute()


def test_who_may_publish_does_so_on_our_channel_alone(locked: LockedServer) -> None:
    for name in ("producer", "admin"):
        with locked.login(name) as client:
            assert refusal(client, "PUBLISH", "perdure:replicated", "") is None
            assert all(
                refusal(client, "PUBLISH", channel, "")
                for channel in ("perdure", "perdure:replicated:", "other", "celeryev")
            )


def test_as_it_ships_it_lets_nobody_in() -> None:
    """Its passwords are for the operator to set; until then it locks everybody out, the user
    without a password first.
    """
    lines = [line for line in ACL.read_text().splitlines() if line]
    assert [line.split()[:4] for line in lines] == [
        ["user", name, "off", "resetpass"] for name in ("default", "operator", *ROLES)
    ]
    assert not any(word in ACL.read_text() for word in ("nopass", ">", "#", " on "))


def test_a_commit_whose_user_may_not_pop_stands_and_fetches_nothing(
    locked: LockedServer, operator: redis.Redis
) -> None:
    """With an ACL file older than the prefetch: a commit must not succeed and then fail for the
    message that it was to take besides.
    """
    (line,) = (line for line in ACL.read_text().splitlines() if line.startswith("user worker "))
    rules = [rule.replace(" +rpop", "") for rule in re.findall(r"\([^)]*\)|\S+", line)[2:]]
    operator.execute_command("ACL", "SETUSER", "older", *rules, "on", f">{password('older')}")
    store, producer = (
        Store(locked.url("older"), now=START),
        Store(locked.url("producer"), now=START),
    )
    try:
        for run_id in ("a", "b"):
            new_run(producer, run_id, fetchable=True)
        granted = try_claim(store, "a")
        assert isinstance(granted, Claim)
        fetches = Fetches(
            store,
            PrefetchRequest(
                (store.keys.queue("controller"),), "w1.fetched", "w1", LEASE, ("ring",)
            ),
        )
        assert commit_end(fetches, granted) == ("ok", "completed")
        assert fetches.fetched is None and operator.llen(store.keys.queue("controller")) == 2
    finally:
        store.close()
        producer.close()
        operator.execute_command("ACL", "DELUSER", "older")
