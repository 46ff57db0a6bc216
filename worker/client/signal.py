"""The part of the client that sends signals to runs."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from perdure.flows.json_values import canonical, storable
from perdure.worker.client import validation
from perdure.worker.client.connection import damaged, not_found
from perdure.worker.client.read import RunReads
from perdure.worker.domain.signal import SignalReceipt
from perdure.worker.errors import Conflict, InvalidInput, InvalidTransition, MailboxFull

#: Unread signals of one name, names with unread signals, and bytes of them that a mailbox holds.
MOST_UNREAD, MOST_NAMES, MOST_BYTES = 1_000, 64, 64 * 1024 * 1024
#: What a full mailbox has, by the word of signal_run.lua.
FULL = {
    "signals": f"{MOST_UNREAD:,} unread signals of this name",
    "names": f"unread signals of {MOST_NAMES} names",
    "bytes": f"{MOST_BYTES >> 20} MiB of unread signals",
}


class RunSignals(RunReads):
    """Sends signals to runs."""

    def signal(
        self,
        run_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> SignalReceipt:
        validation.signal(name)
        validation.key(key, "key")
        validation.notes(by=by)
        text = canonical(storable(payload, "the payload"))
        if len(text.encode()) > self.settings.max_addition_bytes:
            raise InvalidInput(
                f"the payload takes {len(text.encode())} bytes; the limit is "
                f"{self.settings.max_addition_bytes} "
                "(max_addition_bytes). Pass a reference to large things"
            )
        if not validation.is_run_id(run_id):
            raise not_found(run_id)
        reply = self._store.signal(
            run_id,
            name=name,
            payload=text,
            most=MOST_UNREAD,
            names=MOST_NAMES,
            size=MOST_BYTES,
            by=by,
            key=None if key is None else sha256(key.encode()).hexdigest()[:32],
            content=None if key is None else sha256(text.encode()).hexdigest()[:32],
        )
        match reply:
            case ["ok", number, phase]:
                return SignalReceipt(run_id, name, int(number), phase)
            case ["unmade", number, phase, _, _]:
                self._wake(run_id)
                return SignalReceipt(run_id, name, int(number), phase, ends_wait=True)
            case ["finished", _]:
                raise InvalidTransition(
                    f"run {run_id} has completed and takes no signal; "
                    f"its answer: perdure show {run_id}"
                )
            case ["conflict", number]:
                raise Conflict(
                    f"run {run_id}: the key {key!r:.80} is that of signal {number} of {name!r}, "
                    "which has another payload"
                )
            case ["full", what]:
                raise MailboxFull(
                    f"run {run_id} has {FULL[what]}, as many as it may have; the signal {name!r} "
                    "is not stored. Send it again when the run has taken some. What it waits for: "
                    f"perdure why {run_id}"
                )
        raise damaged(run_id, reply)

    def _wake(self, run_id: str) -> None:
        """Queue a run that has waited for a signal, and publish the message of its next round.

        If this process dies first, a worker's sweeper queues the run.
        """
        record = self._record(run_id)
        message = self._message(record, 0)
        _, to_publish = self._store.wake(
            run_id, epoch=record.epoch, step=record.step, message=message
        )
        if to_publish:
            self._connection.publisher.publish(to_publish)
