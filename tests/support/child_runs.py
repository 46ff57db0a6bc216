"""Parent runs and their child runs, made and moved by the transitions alone."""

from __future__ import annotations

from typing import Any

from perdure.worker.domain.children import PlannedChild, born, child_of
from perdure.worker.store import Claim, Store
from perdure.worker.store.replies import ChildrenStep, StartReply
from tests.support.runs import (
    Fetches,
    claim,
    clock,
    commit,
    commit_end,
    fail_round,
    hash_of,
    named,
    new_run,
    pause_at,
    phase,
    record,
)

#: Until both have ended, until one has succeeded, and until one has failed or all have succeeded.
SETTLED, FIRST, ALL = (3, 3, 2), (1, 2, 3), (2, 1, 3)
GROUP = "0.0"
#: The plan of a group whose children the tests make by themselves.
PLAN = ("{}", "[]")


def park_on_children(
    store: Store | Fetches,
    granted: Claim,
    need: tuple[int, int, int],
    total: int = 2,
    limit: int = 100,
    *,
    name: str = "0",
    ms: int | None = None,
    look: int = 30_000,
    policy: str = "stop",
    group: str | None = None,
    **options: Any,
) -> tuple[str, str]:
    """Park the run until ``need``'s numbers of its children have succeeded, failed or ended."""
    group = group or f"{granted.fields['step']}.{name}"
    lines = ":{} {} {} {}".format(group, *need)
    return commit(
        store, granted, "park", wait=name, wait_for=lines, wait_ms=ms, wait_over="null", look=look,
        group=group, total=total, limit=limit, policy=policy, additions=PLAN, **options,
    )  # fmt: skip


def start_children(store: Store, count: int = 1, **options: Any) -> list[str]:
    """Start children, and return the words of the reply (``start_reply``)."""
    reply = start_reply(store, count, **options)
    return [reply.word, reply.detail] if reply.detail else [reply.word]


def start_reply(
    store: Store,
    count: int = 1,
    *,
    run_id: str = "r",
    group: str = GROUP,
    first: int = 0,
    role: str = "executor",
    deadline: int | None = None,
    **fields: str,
) -> StartReply:
    """Start children. Their role differs from their parent's."""
    nonce = hash_of(store, run_id)["nonce"] if store.reads.fields(run_id) else "gone"
    children = []
    for place in range(first, first + count):
        child = PlannedChild({**record(store, role), **fields})
        told = born(child, run_id, nonce, group, place)
        child_id = child_of(run_id, nonce, group, place)[0]
        epoch = 1 if "i_id" in told else 0
        children.append((deadline, {**told, "message": named(child_id, epoch, 0)}))
    return store.family.start(run_id, nonce=nonce, group=group, first=first, children=children)


def child_id(store: Store, place: int, group: str = "0.0", run_id: str = "r") -> str:
    """Return the id of a run's child."""
    return child_of(run_id, hash_of(store, run_id)["nonce"], group, place)[0]


def group_of(store: Store, group: str = "0.0", run_id: str = "r") -> dict[str, str]:
    """Return the server's hash of a group of children."""
    return dict(store.redis.hgetall(store.keys.group(run_id, group)))


def parked(store: Store, need: tuple[int, int, int] = SETTLED, **options: Any) -> Claim:
    """Make a parent that waits for two children, which are not started yet."""
    new_run(store)
    granted = claim(store)
    assert park_on_children(store, granted, need, **options) == ("ok", "parked")
    return granted


def family(store: Store, need: tuple[int, int, int] = SETTLED, **options: Any) -> list[str]:
    """Make a parent that waits for two children, which are queued; return their ids."""
    parked(store, need, **options)
    assert start_children(store, 2) == ["ok", "2"]
    store.redis.delete(store.keys.follow_ups)
    return [child_id(store, 0), child_id(store, 1)]


def end_child(store: Store, run_id: str, **fields: str) -> None:
    assert commit_end(store, claim(store, run_id), **fields) == ("ok", "completed")


def fail_child(store: Store, run_id: str) -> None:
    assert fail_round(store, claim(store, run_id), fatal=1) == ("ok", "errored")


def end_of(store: Store, place: int) -> str | None:
    """Return the parent's record of a child's end."""
    return group_of(store).get(f"end:{place}")


def follow_up(store: Store, run_id: str = "r") -> int | None:
    """Return the ms until a sweep passes on the run's follow-up; None if it has none."""
    at = store.redis.zscore(store.keys.follow_ups, run_id)
    return None if at is None else int(at) - clock(store)


def reconcile(store: Store, run_id: str = "r", **options: Any) -> list[ChildrenStep]:
    """Return every step of one caller."""
    steps = [store.family.reconcile(run_id, **options)]
    while steps[-1].word in ("more", "moved"):
        last = steps[-1]
        steps.append(store.family.reconcile(run_id, last.walk, last.start, **options))
    return steps


def last_word(store: Store, run_id: str = "r") -> str:
    return reconcile(store, run_id)[-1].word


def phases(store: Store, *run_ids: str) -> list[str]:
    return [phase(store, run_id) for run_id in run_ids]


def by(granted: Claim) -> dict[str, Any]:
    return {
        "epoch": int(granted.fields["epoch"]),
        "step": int(granted.fields["step"]),
        "token": granted.token,
    }


def paying_family(store: Store, limit: int = 100) -> list[str]:
    """Make a parent of two queued children that spend of its budgets; return their ids."""
    parked(store, limit=limit)
    assert start_children(store, 2, payers=f"r {hash_of(store)['nonce']} tokens") == ["ok", "2"]
    store.redis.delete(store.keys.follow_ups)
    return [child_id(store, 0), child_id(store, 1)]


def hold_up(
    store: Store,
    granted: Claim,
    of: str = "r",
    budget: str = "tokens",
    added: str = "",
    **options: Any,
) -> tuple[str, str]:
    """Commit that the round may not begin, as a budget is used up."""
    fields = granted.fields
    question = {**pause_at(fields["current_node"], "budget"), "i_reason": "budget_exhausted"}
    question |= {"i_budget": budget} | ({} if of == fields["id"] else {"i_payer": of})
    named_of = hash_of(store, of).get("nonce", "")
    epoch, step = int(fields["epoch"]), int(fields["step"])
    if not fields["message"]:
        options["own"] = named(fields["id"], epoch, step)
    return commit(
        store, granted, "short", short=f"{of} {named_of} {budget}", added=added, look=30_000,
        message=named(fields["id"], epoch + 1, step), fields=question, **options,
    )  # fmt: skip
