"""The content of the real server in the model's terms, and its differences."""

from __future__ import annotations

from math import ceil
from typing import Any

from perdure.worker.store import Store
from perdure.worker.store.keys import OF_SET
from tests.model.laws import LIVELY
from tests.model.state import ENDED, GONE, LIVE, MOST_ATTEMPTS, STALE, UNMADE, Run, World
from tests.support import runs

ROLES = ("controller", "executor")
STOPS = {"none": "none", "stop_requested": "requested", "stopped": "stopped"}


def difference(store: Store, w: World) -> str:
    """Describe the first difference of the server from the model; return "" if there is none."""
    for place, run in enumerate(w.runs):
        found = store.reads.fields(f"r{place}")
        if (found is None) != (run is None):
            return f"run {place}: the real server has {found and found['phase']}, the model {run and run.phase}"
        if run is not None and found is not None:
            real, model = _real(store, w, place, found), _model(w, place, run)
            wrong = {name: (real[name], model[name]) for name in model if real[name] != model[name]}
            if wrong:
                return f"run {place}, (real, model): {wrong}"
            runs.assert_lawful(store, f"r{place}")
    if w.topic is not None:
        real_topic, model_topic = _real_topic(store), _model_topic(w)
        if real_topic != model_topic:
            return f"the topic: the real server has {real_topic}, the model {model_topic}"
    if not w.config.outbox:
        for queue, line in enumerate(w.lists):
            there = runs.messages(store, ROLES[queue])
            same = [
                pair == STALE or text == runs.named(f"r{place}", *pair)
                for text, (place, pair) in zip(there, line, strict=False)
            ]
            if len(there) != len(line) or not all(same):
                return f"list {queue}: the real server has {there}, the model {line}"
    if w.config.hands_on:
        there = runs.messages(store, f"{ROLES[0]}.{OF_SET}a")
        same = [
            pair == STALE or text == runs.named(f"r{place}", *pair)
            for text, (place, pair) in zip(there, w.apart, strict=False)
        ]
        if len(there) != len(w.apart) or not all(same):
            return f"the list of a set of flows: the real server has {there}, the model {w.apart}"
    return ""


def _model(w: World, place: int, run: Run) -> dict[str, Any]:
    names = (
        "phase",
        "epoch",
        "step",
        "attempt",
        "failures",
        "losses",
        "stop",
        "queue",
        "expires",
        "i_id",
        "ending",
        "unfinished",
    )
    seen = {name: getattr(run, name) for name in names}
    # At rest no node reads it, except for an answer that arrives by itself; the hash of a run at
    # rest has none.
    read = run.phase in LIVE or (run.phase == "interrupted" and run.i_wait is not None)
    seen |= {
        "due": run.due,
        "lease": run.lease_until,
        "message": (f"r{place}", *run.message) if read else None,
    }
    seen["answered"] = run.i_answer is not None
    seen |= {
        "waits": run.waiting_for,
        "held": bool(run.held_token),
        "looked": run.looked,
        "deadline": run.deadline is not None,
    }
    seen["in line"] = run.phase == "queued" and run.number > w.cursor[run.queue]
    seen["passed"] = run.phase == "leased" and 0 < run.number <= w.cursor[run.queue]
    seen["limit"] = run.round_until
    seen["grace"] = run.grace if run.phase in LIVELY else None
    seen["patience"], seen["fitting"] = run.patience, run.fitting
    seen["listed"] = (run.number, place) in w.lines[run.queue]
    seen["last answer"] = run.last_answer if run.last_token else None
    seen["intent"], seen["result"] = bool(run.intent), bool(run.result)
    seen["mail"] = (run.taken, run.arrived)
    if w.config.heeds:
        seen["heard"] = run.heard
    seen["generation"] = run.generation
    seen["wait"] = run.wait
    seen["wait until"] = None if run.wait in run.over else run.wait_until
    seen["over"] = run.over
    if w.config.stays:
        seen["erred"] = run.erred
    seen["handed on"] = run.phase == "queued" and run.handed_on == (run.epoch, run.step)
    return seen


def _real(store: Store, w: World, place: int, found: dict[str, str]) -> dict[str, Any]:
    now, phase, past = runs.clock(store), found["phase"], -w.config.overdue
    model = w.runs[place]
    assert model is not None

    def ticks(time: int | str | None) -> int | None:
        return None if time is None else max(past, ceil((int(time) - now) / w.config.tick))

    queue = found["queue"]
    line = {run_id for role in ROLES for run_id in _line(store, role, found, f"r{place}")}
    cursor = int(store.redis.hget(store.keys.queues, f"{queue}:cursor") or 0)
    interrupt = found.get("i_id")
    seen: dict[str, Any] = {
        name: int(found[name]) for name in ("epoch", "step", "failures", "losses")
    }
    seen |= {
        "phase": phase,
        "attempt": min(int(found["attempt"]), MOST_ATTEMPTS),
        "stop": STOPS[found["stop_current_execution"]],
    }
    seen |= {
        "queue": [store.keys.queue(role) for role in ROLES].index(queue),
        "due": ticks(runs.due(store, f"r{place}")),
    }
    if phase == "parked" and model.wait_until is None and w.family is not None:
        seen["due"] = None if (seen["due"] or 0) > 1_000 else seen["due"]  # when it looks
    seen |= {"lease": ticks(found.get("lease_until")), "message": None}
    if phase in LIVE or (phase == "interrupted" and "i_wait" in found):
        seen["message"] = (
            runs.parts(found["message"]) if found["message"] else (f"r{place}", *UNMADE)
        )
    seen["expires"] = store.redis.pexpiretime(store.keys.run(f"r{place}")) > 0
    seen["i_id"] = None if interrupt is None else tuple(map(int, interrupt.split(":")))
    seen["answered"] = "i_answer" in found
    seen["ending"], seen["unfinished"] = "ending" in found, "unfinished" in found
    assert (
        ("answer" in found) == ("output" in found) == (phase == "completed" or "ending" in found)
    ), "an answer without an end"
    seen["waits"] = found.get("waiting_for", "")
    seen["held"] = "held_token" in found and int(found["held_until"]) > now
    seen["looked"] = found.get("looked") == "1" and phase == "queued"
    seen["deadline"] = "deadline" in found
    seen["in line"] = phase == "queued" and int(found["number"]) > cursor
    seen["passed"] = phase == "leased" and 0 < int(found["number"]) <= cursor
    seen["limit"] = ticks(found.get("round_until"))
    seen["grace"] = int(found.get("grace", 0)) // w.config.tick if phase in LIVELY else None
    seen["patience"] = _patience(w, found, now, "failing")
    seen["fitting"] = _patience(w, found, now, "misfit")
    seen["listed"] = bool(line)
    seen["last answer"] = found.get("last_answer") if model.last_token else None
    seen["intent"], seen["result"], seen["erred"] = (
        "intent" in found,
        "o:charge" in found,
        "last_error" in found,
    )
    seen["heard"] = int(found.get("heard", 0))
    seen["generation"] = int(found.get("generation", 0))
    seen["mail"] = store.signals.counts_of(f"r{place}", ["paid"])["paid"]
    seen["wait"] = int(found.get("wait", -1))
    seen["over"] = tuple(sorted(int(name[3:]) for name in found if name.startswith("o:~")))
    seen["wait until"] = None if seen["wait"] in seen["over"] else ticks(found.get("wait_until"))
    seen["handed on"] = phase == "queued" and found.get("handed_to", "").startswith(
        f"{found['epoch']} {found['step']} "
    )
    assert phase not in ENDED or "ended_at" in found
    return seen


def _model_topic(w: World) -> dict[str, Any]:
    topic = w.topic
    there = bool(topic.holder or topic.before or topic.waiting)
    return {
        "holder": None if topic.holder is None else f"r{topic.holder[0]}",
        "before": [f"r{place}" for place, nonce in topic.before if nonce != GONE],
        "waiting": [f"k{key}" for key, _ in topic.waiting],
        "expires": topic.expires if there else None,
        "mail": {
            f"r{place}": [f"k{key}" for key in topic.mail[place]]
            for place, run in enumerate(w.runs)
            if run is not None
        },
    }


def _real_topic(store: Store) -> dict[str, Any]:
    key, now = store.keys.topic("order:1"), runs.clock(store)
    found: dict[str, str] = store.redis.hgetall(key)
    before = [line.split() for line in found.get("before", "").splitlines()]
    before = [
        run_id
        for run_id, nonce in before
        if store.redis.hget(store.keys.run(run_id), "nonce") == nonce
    ]
    lines = [line.split() for line in found.get("waiting", "").splitlines()]
    waiting = [line[4] for line in lines if int(line[1]) > now]
    there = bool("run" in found or before or waiting)
    mail: dict[str, list[str]] = {}
    for run_id in ("r0", "r1"):
        box: dict[str, str] = store.redis.hgetall(store.keys.mailbox(run_id))
        if store.reads.fields(run_id) is not None:
            numbers = range(1, int(box.get("paid:last", 0)) + 1)
            mail[run_id] = [box[f"paid:known:{number}"] for number in numbers]
    return {
        "holder": found.get("run"),
        "before": before,
        "waiting": waiting,
        "expires": store.redis.pexpiretime(key) > 0 if there else None,
        "mail": mail,
    }


def _patience(w: World, found: dict[str, str], now: int, field: str) -> int | None:
    """Return the ticks until the patience with the failures, or misfits, of this step and epoch is
    spent.
    """
    epoch, step, since, _ = found.get(field, "- - - -").split()
    if w.config.within is None or (epoch, step) != (found["epoch"], found["step"]):
        return None
    return max(-w.config.overdue, ceil((int(since) - now) / w.config.tick) + w.config.within)


def _line(store: Store, role: str, found: dict[str, str], run_id: str) -> list[str]:
    """Return the run if it is in this queue under its current number; other entries mean nothing
    any more.
    """
    queue = store.keys.queue(role)
    number = store.redis.zscore(store.keys.line(queue), run_id)
    # A run at rest has no number.
    live = (
        number is not None
        and found["phase"] in LIVE
        and queue == found["queue"]
        and int(number) == int(found["number"])
    )
    return [run_id] if live else []
