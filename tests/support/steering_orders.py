"""Messages to a run in every order with the reads and commits of its worker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from perdure.worker.store import Store
from tests.support.runs import claim, commit_end, events, new_run, signal

HEED = {"heed": "say ask"}


def heard_or_refused(store: Store, cases: Iterable[int]) -> Counter[str]:
    """Send a message to a run of each case, in every order of messages and of a worker's looks and
    commits.

    Returns:
        The outcomes of all messages, by word.
    """
    told: Counter[str] = Counter()
    for case in cases:
        chance, run_id = random.Random(case), f"r{case}"
        new_run(store, run_id)
        granted, stored, heard, ended = claim(store, run_id), 0, 0, False
        for _ in range(8):
            step = chance.choice(("say", "say", "look", "end", "end"))
            if step == "say":
                word = signal(store, "say", run_id=run_id)[0]
                assert word == ("finished" if ended else "ok")
                stored += word == "ok"
                told["refused"] += word != "ok"
            elif step == "look" and not ended:
                heard = store.signals.counts_of(run_id, ["say"])["say"][1]
            elif not ended:
                took = {"take": f"say {heard}"} if heard else {}
                word = commit_end(store, granted, options={**HEED, **took})[0]
                assert (word == "ok") == (heard == stored), case
                ended = word == "ok"
        if not ended:
            took = {"take": f"say {heard}"} if heard else {}
            commit_end(store, granted, options={**HEED, **took, "insist": 1})
        unread = [entry["signals"] for entry in events(store, run_id, "unread")]
        assert unread == ([f"say {stored - heard}"] if stored > heard else []), case
        told.update(heard=heard, unread=stored - heard)
    return told
