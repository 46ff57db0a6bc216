"""Staying: a run whose rounds are short goes on with the worker that has it, for a while, and is not queued between two of them.

What the next round needs to know is what this one has just committed; nothing of it is read again
(docs/decisions/0026-a-run-stays.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worker.journal import RESULT
from worker.prefix import Prefix
from worker.record import Record
from worker.store import Granted, Stayed
from worker.store.answers import NEWEST_TURNS

#: So long a run stays, from the first of its rounds here; then it queues behind the others. A round that waits for a model takes longer
#: than that, so such runs take turns after each round; of those that only compute, none waits noticeably longer for its turn.
STAY_SECONDS = 0.1

#: What the hash no longer has once the round is done (commit_and_stay.lua).
_ended = frozenset({"progress", "spared", "intent", "intent_token", "intent_at", "intent_by", "round_until", "once"})
_results = Prefix(RESULT)


def next_claim(
    record: Record, claim: Granted, written: Mapping[str, str], additions: Sequence[str], message: str, stayed: Stayed, claim_id: str
) -> Granted:
    """The claim of the round after the one of ``claim``, which was committed with these fields and turns."""
    before, now = record.fields, str(stayed.now)
    fields = dict(before)
    for name in (*_ended.intersection(before), *(_results.names(before) if "once" in before else ())):
        del fields[name]
    fields |= written
    fields |= {
        "step": str(record.step + 1),
        "last_node": before["current_node"],
        "attempt": "1",
        "message": message,
        "number": stayed.number,
        "updated_at": now,
        "claimed_at": now,
        "token": stayed.token,
        "claim_id": claim_id,
        "lease_until": stayed.lease_until,
        "last_token": claim.token,
        "last_answer": "continued",
    }
    if stayed.round_until is not None:
        fields["round_until"] = stayed.round_until
    newest = [*claim.newest, *additions][-NEWEST_TURNS:] if additions else claim.newest
    turns = claim.turns + len(additions)
    return Granted(stayed.token, 1, int(stayed.lease_until), stayed.now, turns, fields, newest, claim_id, kept=True)
