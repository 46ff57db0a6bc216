"""The check of ``perdure doctor``: whether notifications are delivered."""

from __future__ import annotations

from perdure.worker.domain.verdict import Finding, ok, unknown, warning
from perdure.worker.errors import AccessDenied
from perdure.worker.features.notifications.records import NotificationRecords, key
from perdure.worker.presentation.text import count
from perdure.worker.store import Store
from perdure.worker.store.inspection import Inspection

#: Maximum number of rules that a finding names.
NAMED = 10
#: Seconds for which a due notification may wait while a worker delivers others.
LATE_SECONDS = 120.0


def deliveries(inspection: Inspection, store: Store) -> Finding:
    """Check for dead, failing and late notifications.

    A dead notification is one whose delivery was given up. A failing one waits for another attempt
    after a failure. A late one has been due for ``LATE_SECONDS`` without an attempt, because no
    worker has its rule. Only the first of these problems is reported, in this order. If the
    notifications cannot be read, the result of the check is unknown.
    """
    check, records = "notifications", NotificationRecords(store)
    unreadable = unknown(
        check,
        "the notifications cannot be read",
        f"Allow this user to read {key(store.keys, '*')}",
    )
    if inspection.damage is None:  # It may not read any key, or this is no server for it.
        return unreadable
    try:
        rules = records.rules()
        dead, newest = records.dead_count(), records.dead(1)
        firsts = records.longest_due(rules)
        waiting = records.get([first for first, _ in firsts.values()])
        backlog, now = records.backlog(rules), store.time()
    except AccessDenied:
        return unreadable
    if dead:
        last = f"; the newest: {newest[0].rule}: {newest[0].error}" if newest else ""
        return warning(
            check,
            f"{count(dead, 'notification')} could not be delivered and were given up{last}",
            "See perdure notifications list, correct the receiver, "
            "then perdure notifications send --all-dead",
        )
    failing = [each for each in waiting if each is not None and each.attempts]
    if failing:
        examples = "; ".join(
            f"{each.rule}: {each.error} ({backlog.get(each.rule, 0):,} wait)"
            for each in failing[:NAMED]
        )
        return warning(
            check,
            f"receivers of notifications fail: {examples}",
            "Correct the receiver. Workers go on trying; "
            "perdure notifications send ID sends one again at once",
        )
    late = [rule for rule, (_, due) in firsts.items() if now - due > LATE_SECONDS * 1000]
    if late:
        number = sum(backlog.get(rule, 0) for rule in late)
        return warning(
            check,
            f"{count(number, 'notification')} of {', '.join(late[:NAMED])} "
            "are due, and no worker delivers them",
            "Start a worker whose setting notify has these rules",
        )
    return ok(check, "no notification is dead or late" if rules else "no rule notifies")
