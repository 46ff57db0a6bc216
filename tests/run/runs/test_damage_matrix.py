"""Every field and key of a run damaged in every way, in every phase: each transition answers with a
word, before any write.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import PerdureError, RunStatus
from perdure.worker.doctor import examine
from perdure.worker.domain.turn_texts import pack_turn, unpack_turns
from tests.support.damaged_runs import (
    ANSWER,
    HURT,
    PHASES,
    SOUND,
    Held,
    Lab,
    damages,
    laboratory,
    transitions,
)
from tests.support.in_process_runtime import runtime_of
from tests.support.redis_servers import server
from tests.support.runs import LEASE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: How many of the transitions are called for each damage of each field, and of the client's calls;
#: chance says which.
CALLS = 2
#: The share of the damages that a run is played on with in each of three phases, and that clients
#: meet in each of seven.
SHARE = 1 / 5
#: The answers that a script may give; any other answer is unexpected.
WORDS = {
    "ok", "missing", "stale", "finished", "early", "leased", "stopped", "unknown", "damaged", "fenced", "lost", "stop", "not_held", "asked",
    "queued", "waiting", "interrupted", "running", "moved", "unknown_queue",
    "resent", "marked", "in_line", "freed", "delayed", "spared", "overran", "woken", "answered", "errored", "removed", "not due", "unmade",
}  # fmt: skip
#: After these nothing was written.
REFUSALS = {
    "missing",
    "stale",
    "fenced",
    "lost",
    "not_held",
    "moved",
    "unknown_queue",
    "damaged",
    "leased",
    "early",
}
#: A sweep's own records.
OF_SWEEPS = (b"lab:queues", b"lab:due", b"lab:line:controller", b"lab:line:executor")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with server("valkey", "everysec") as running, laboratory(running.url) as made:
        yield made


def of_the_other(lab: Lab, held: Held) -> tuple[Any, ...]:
    """Return the data of the run beside it: its keys, and its entries in lists."""
    names = lab.store.keys
    keys = [
        names.run(SOUND),
        names.memory(SOUND),
        names.events(SOUND),
        names.artifacts(SOUND),
        names.idempotency("other"),
    ]
    with lab.raw.pipeline() as pipe:
        for name in ("live", "interrupted", "stopped", "completed", "errored"):
            pipe.zscore(lab.store.keys.index(name), SOUND)
        pipe.zscore(lab.store.keys.due, SOUND)
        listed = pipe.execute(raise_on_error=False)
    return tuple(held.get(key.encode()) for key in keys), [
        score if not isinstance(score, Exception) else None for score in listed
    ]


def judge(lab: Lab, name: str, call: Any, known: set[bytes], case: str, failures: list[str]) -> str:
    """Call it; return its word. Broken expectations are added to ``failures``."""
    if name == "sweep":
        lab.store.now = lab.start + LEASE
        if (
            lab.raw.type("lab:due") in (b"zset", b"none")
            and lab.raw.zscore("lab:due", HURT) is not None
        ):
            lab.raw.zadd("lab:due", {HURT: 1})
    before = lab.held()
    other = of_the_other(lab, before)
    try:
        answer = call()
    except Exception as error:
        answer = [f"{type(error).__name__}: {error}"]
    lab.store.now = lab.start
    word = str(answer[0])
    after = lab.held()
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    if word not in WORDS:
        failures.append(f"{case}: {name} answered {answer}")
    if of_the_other(lab, after) != other:
        failures.append(f"{case}: {name} ({word}) harmed the run beside it")
    if word in REFUSALS and not (word == "fenced" and b"held" in b"".join(before)):
        allowed = set(OF_SWEEPS) if name == "sweep" else set()
        if (name, word) == ("resume", "stale"):
            allowed = {lab.key().encode()}  # a refusal is remembered like any other reply
        if not changed <= allowed:
            failures.append(f"{case}: {name} answered {answer}, and wrote {changed - allowed}")
    if not set(after) - set(before) <= known:
        failures.append(f"{case}: {name} made {set(after) - set(before)}")
    lab.put_back(before, changed)
    return word


def known_keys(lab: Lab) -> set[bytes]:
    """Return the names of keys that may appear."""
    keys = lab.store.keys
    own = [
        keys.run(HURT),
        keys.memory(HURT),
        keys.events(HURT),
        keys.artifacts(HURT),
        *keys.shared,
        *map(keys.line, keys.queue_names),
    ]
    return {key.encode() for key in own}


@pytest.mark.parametrize("phase", PHASES)
def test_every_field_damaged_in_every_way(lab: Lab, phase: str) -> None:
    chance = random.Random(phase)
    lab.in_phase(phase)
    calls = transitions(lab)
    fields, others = lab.fields(), lab.fields(SOUND)
    known, key = known_keys(lab), lab.key()
    words: dict[str, int] = {}
    failures: list[str] = []
    for field, value in sorted(fields.items()):
        for how, new in damages(value, others.get(field), chance).items():
            case = f"{phase}, {field.decode()} {how}"
            if new is None:
                lab.raw.hdel(key, field)
            else:
                lab.raw.hset(key, field, new)
            for name in chance.sample(sorted(calls), CALLS):
                word = judge(lab, name, calls[name], known, case, failures)
                words[word] = words.get(word, 0) + 1
            lab.raw.hset(key, field, value)
    print(f"{phase}: {len(fields)} fields, {sum(words.values())} calls: {words}")
    assert not failures, "\n".join(failures)
    assert len(fields) > 40 and words["damaged"] > 50


@pytest.mark.parametrize("phase", PHASES)
def test_every_key_gone_or_of_another_type(lab: Lab, phase: str) -> None:
    held = lab.in_phase(phase)
    calls = transitions(lab)
    known = known_keys(lab)
    tried = 0
    failures: list[str] = []
    for key in sorted(held):
        if key in {
            lab.key(SOUND).encode(),
            *(f"{lab.key(SOUND)}:{part}".encode() for part in ("memory", "events", "artifacts")),
            b"lab:idem:other",
        }:
            continue
        for how in ("gone", "another type"):
            lab.raw.delete(key)
            if how == "another type":
                if key.startswith(b"lab:idem"):
                    lab.raw.rpush(key, "x")
                else:
                    lab.raw.set(key, "not what it was")
            for name, call in calls.items():
                judge(lab, name, call, {*known, key}, f"{phase}, {key.decode()} {how}", failures)
                tried += 1
            lab.put_back(held, {key})
    print(f"{phase}: {tried} calls")
    assert not failures, "\n".join(failures)


def goes_on(lab: Lab) -> None:
    """Play and sweep until nothing changes any more."""
    sweeper = runtime_of(lab.client).new_sweeper("all", "threads", 1)
    store = lab.store
    assert store.now is not None
    for _ in range(10):
        while lab.play() is not None:
            pass
        if lab.raw.zscore("lab:due", HURT) is None:
            break
        store.now += LEASE
        store.redis.hset(store.keys.queues, "swept_at", store.now)
        sweeper.sweep()
    store.now = lab.start


def doctor_names(lab: Lab, what: str) -> bool:
    [finding] = [
        found for found in examine(lab.client._connection) if found.check == "quarantined-runs"
    ]
    return what in finding.sentence


#: Damage that looks like any other run: another client might have asked for just that.
PLAUSIBLE = {RunStatus.STOPPED, RunStatus.ERRORED}


@pytest.mark.parametrize("phase", ["queued", "leased", "waiting"])
def test_a_damaged_run_ends_right_or_is_quarantined_and_named(lab: Lab, phase: str) -> None:
    """Under any damage: no wrong answer, no endless sending; without harm the run completes, else
    the doctor names it.
    """
    chance = random.Random(phase)
    lab.in_phase(phase)
    fields, others = lab.fields(), lab.fields(SOUND)
    fates: dict[str, int] = {}
    failures: list[str] = []
    for field, value in sorted(fields.items()):
        for how, new in damages(value, others.get(field), chance).items():
            if chance.random() > SHARE:
                continue
            case = f"{phase}, {field.decode()} {how}"
            lab.in_phase(phase)
            if new is None:
                lab.raw.hdel(lab.key(), field)
            else:
                lab.raw.hset(lab.key(), field, new)
            try:
                goes_on(lab)
                fate = fate_of(lab, case)
            except Exception as error:
                failures.append(f"{case}: {type(error).__name__}: {error}")
                continue
            fates[fate] = fates.get(fate, 0) + 1
    print(f"{phase}: {fates}")
    assert not failures, "\n".join(failures)
    assert fates["completed"] > 10 and fates["quarantined"] > 30


def fate_of(lab: Lab, case: str) -> str:
    if doctor_names(lab, HURT):
        return "quarantined"
    try:
        run = lab.client.get(HURT)
    except PerdureError as error:
        raise AssertionError(
            f"{case}: it does not read, and the doctor does not name it: {error}"
        ) from error
    if run.status is RunStatus.COMPLETED:
        assert run.answer == ANSWER and [
            turn["observation"] for turn in lab.client.transcript(HURT)["history"]
        ] == [3, 2, 1, 0], case
        return "completed"
    assert run.status in PLAUSIBLE or lab.raw.zscore("lab:due", HURT), (
        f"{case}: it is {run.status.value} ({run.phase}) for ever"
    )
    return f"{run.status.value} {run.phase}"


def client_calls(lab: Lab) -> dict[str, Any]:
    client = lab.client
    return {
        "get": lambda: client.get(HURT).to_dict(),
        "why": lambda: client.why(HURT).to_dict(),
        "transcript": lambda: client.transcript(HURT),
        "events": lambda: list(client.events(HURT, follow=False)),
        "runs": lambda: [run.to_dict() for run in client.runs()],
        "stop": lambda: client.request_stop(HURT).to_dict(),
        "resume": lambda: client.resume(HURT, "yes"),
        "retry": lambda: client.retry(HURT),
        "delete": lambda: client.delete(HURT),
        "examine": lambda: examine(lab.client._connection),
    }


@pytest.mark.parametrize("phase", PHASES)
def test_every_call_of_a_client_answers_or_raises_an_error_of_ours(lab: Lab, phase: str) -> None:
    chance = random.Random(phase)
    held = lab.in_phase(phase)
    fields, others = lab.fields(), lab.fields(SOUND)
    failures: list[str] = []
    raised, calls = 0, client_calls(lab)
    for field, value in sorted(fields.items()):
        for how, new in damages(value, others.get(field), chance).items():
            if chance.random() > SHARE:
                continue
            for name in chance.sample(sorted(calls), CALLS):
                if new is None:
                    lab.raw.hdel(lab.key(), field)
                else:
                    lab.raw.hset(lab.key(), field, new)
                try:
                    calls[name]()
                except PerdureError:
                    raised += 1
                except Exception as error:
                    failures.append(
                        f"{phase}, {field.decode()} {how}: {name} raised {type(error).__name__}: {error}"
                    )
                lab.put_back(held, {key.encode() for key in lab.store.redis.keys("*")} | set(held))
    print(f"{phase}: {raised} errors of ours")
    assert not failures, "\n".join(failures)
    assert raised > 20


@pytest.mark.parametrize("part", ["memory", "events"])
@pytest.mark.parametrize(
    "how", ["cut short", "a bit flipped", "of another run", "no text", "doubled", "gone"]
)
def test_a_damaged_entry_is_an_error_of_ours_and_no_answer(lab: Lab, part: str, how: str) -> None:
    """An entry of the history quarantines the run when it is played; the events are only shown,
    never played by.
    """
    lab.in_phase("queued")
    key = f"{lab.key()}:{part}"
    if part == "memory":
        [entry] = lab.raw.lrange(key, 0, -1)
        another = pack_turn(*unpack_turns(HURT, [entry.decode()]), SOUND)
        lab.raw.delete(key)
        new = damages(entry, another.encode(), random.Random(1)).get(how)
        if how != "gone":
            lab.raw.rpush(key, *([entry, entry] if how == "doubled" else [new]))
        goes_on(lab)
        assert doctor_names(lab, HURT), "quarantined and named"
    else:
        lab.raw.delete(key)
        if how != "gone":
            lab.raw.xadd(
                key, {"type": b"\xff", "at": "x" if how == "no text" else "9" * 30, "step": "s"}
            )
            with pytest.raises(PerdureError):
                list(lab.client.events(HURT, follow=False))
        goes_on(lab)
        assert lab.client.get(HURT).answer == ANSWER
