"""Run affinity: a run of short rounds keeps its worker for a while.

Replaces: the work between two rounds of a run, which is to push a message, to pop it, to claim the
run and to read its state. Here, the commit leases the next round to the same worker in the same
write. The next round needs only data that this worker has just written, so nothing is read again
(docs/internals/decisions/0026-a-run-stays.md).

Worth: such a round costs the server less than half: 38 microseconds instead of 101 on Redis 7
(docs/internals/performance.md, ``python -m benchmarks``). That the message is not written gives
another 1.044 x rounds a second (docs/internals/decisions/0029-a-message-that-nobody-reads.md).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``), which also switches prefetch off.

Private parts used: none here. ``prefetch`` delivers the next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.worker.domain.record import ARRIVED, GENERATION, KEEP_EVENTS, Record
from perdure.worker.domain.stored_fields import FieldPrefix
from perdure.worker.engine.commit import Committer
from perdure.worker.engine.fast_path import CommitResult, RoundCommit
from perdure.worker.engine.journal import RESULT
from perdure.worker.store import Claim, Continuation, Prefetched, PrefetchRequest, Store
from perdure.worker.store.replies import NEWEST_TURNS

#: Seconds for which a run may keep a worker, from its first round here. Then it goes back to the
#: queue. A round that waits for a model takes longer, so such runs take turns after each round. Of
#: runs that only compute, none waits noticeably longer for its turn.
STAY_SECONDS = 0.1

#: Fields that the hash loses when the round is done (commit_and_continue.lua).
_dropped_fields = frozenset(
    {
        "progress",
        "spared",
        "intent",
        "intent_token",
        "intent_at",
        "intent_by",
        "round_until",
        "once",
    }
)
#: Options that only commit_round.lua knows: it takes signals, writes replies, charges the runs
#: above, and renews a run.
_apart = frozenset({"take", "replies", "charge", GENERATION})
_results = FieldPrefix(RESULT)


def commit_and_continue(
    store: Store, committer: Committer, commit: RoundCommit, request: PrefetchRequest
) -> CommitResult | None:
    """Commit a round, and lease the run's next round to this worker in the same write.

    Args:
        request: the commit's prefetch request. Its claim id is used for the next round.

    Returns:
        None if nothing was written: the round must be committed with ``Committer.write``.

    Raises:
        StoreUnavailable: The server was away for too long.
    """
    record, claim, settlement, fields, took, message = commit
    if settlement.kind != "next" or message is None or message.queue not in request.lists:
        return None
    if not _apart.isdisjoint(settlement.options):
        return None
    forget = int(settlement.options.get("forget", 0))
    content = message.read()
    text = "" if content is not None else message.write()
    continuation = committer.retry_while_away(
        record,
        lambda: store.rounds.commit_and_continue(
            record.id,
            epoch=record.epoch,
            step=record.step,
            token=claim.token,
            claim=claim.id,
            next_claim=request.claim,
            queue=message.queue,
            message=text,
            fields=fields,
            additions=settlement.additions,
            artifacts=settlement.artifacts,
            took=took,
            data=settlement.options.get("data"),
            mailbox=record.fields.get(ARRIVED),
            forget=forget or None,
            keep_events=settlement.options.get(KEEP_EVENTS),
            record=settlement.options.get("record"),
        ),
    )
    if continuation is None:
        return None
    claimed = next_claim(
        record, claim, fields, settlement.additions, text, continuation, request.claim, forget
    )
    prefetched = Prefetched(message.queue, text, claimed, content)
    return CommitResult("ok", "continued", prefetched=prefetched)


def next_claim(
    record: Record,
    claim: Claim,
    written: Mapping[str, str],
    additions: Sequence[str],
    message: str,
    continuation: Continuation,
    claim_id: str,
    forget: int = 0,
) -> Claim:
    """Compute the claim of the next round from this round's claim and commit.

    So the worker does not read the run from the server again.

    Args:
        record, claim: The run and the claim of the committed round.
        written: The fields that the commit wrote.
        additions: The turns that the commit added.
        message: The stored message of the next round. Empty if it was not written.
        continuation: The reply to the commit.
        claim_id: The id of the next claim.
        forget: The number of turns that the commit dropped.
    """
    before, now = record.fields, str(continuation.now)
    fields = dict(before)
    for name in (
        *_dropped_fields.intersection(before),
        *(_results.names(before) if "once" in before else ()),
    ):
        del fields[name]
    fields |= written
    fields |= {
        "step": str(record.step + 1),
        "last_node": before["current_node"],
        "attempt": "1",
        "message": message,
        "number": continuation.number,
        "updated_at": now,
        "claimed_at": now,
        "token": continuation.token,
        "claim_id": claim_id,
        "lease_until": continuation.lease_until,
        "last_token": claim.token,
        "last_answer": "continued",
    }
    if continuation.round_until is not None:
        fields["round_until"] = continuation.round_until
    newest = [*claim.newest, *additions][-NEWEST_TURNS:] if additions else claim.newest
    turns = claim.turns + len(additions) - forget
    newest = newest[-turns:] if turns else []
    return Claim(
        continuation.token,
        1,
        int(continuation.lease_until),
        continuation.now,
        turns,
        fields,
        newest,
        claim_id,
        carried_over=True,
    )
