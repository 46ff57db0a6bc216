"""The client part that sends signals to runs."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import is_name
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.signal import SignalReceipt
from perdure.worker.errors import (
    Conflict,
    DamagedRun,
    InvalidInput,
    InvalidTransition,
    MailboxFull,
    RunNotFound,
)
from perdure.worker.ids import RUN_ID
from perdure.worker.operations import validation
from perdure.worker.operations.session import damaged, not_found

#: Limits of a mailbox: unread signals per name, names with unread signals, bytes of unread signals.
MOST_UNREAD, MOST_NAMES, MOST_BYTES = 1_000, 64, 64 * 1024 * 1024
#: Description of a full mailbox, by the word of signal_run.lua.
FULL = {
    "signals": f"{MOST_UNREAD:,} unread signals of this name",
    "names": f"unread signals of {MOST_NAMES} names",
    "bytes": f"{MOST_BYTES >> 20} MiB of unread signals",
}
#: Limits of a topic without a run: signals, and bytes of signals.
MOST_WAITING, SIZE_WAITING = 100, 1024 * 1024
#: Description of a full topic, by the word of signal_topic.lua.
FULL_TOPIC = {
    "signals": f"{MOST_WAITING} signals",
    "bytes": f"{SIZE_WAITING >> 20} MiB of signals",
}


def stored_key(key: str) -> str:
    """Return the key of a signal as mailboxes store it."""
    return sha256(key.encode()).hexdigest()[:32]


class RunSignals(RunReads, ClientApi):
    """Sends signals to runs."""

    def signal(
        self,
        run_id: str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        topic: str | None = None,
        key: str | None = None,
        by: str | None = None,
        keep: float | None = None,
    ) -> SignalReceipt:
        validation.recipient(run_id, topic, keep)
        validation.topic(topic)
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
        signal: dict[str, Any] = {
            "name": name,
            "payload": text,
            "most": MOST_UNREAD,
            "names": MOST_NAMES,
            "size": MOST_BYTES,
            "by": by,
            "key": None if key is None else stored_key(key),
            "content": None if key is None else sha256(text.encode()).hexdigest()[:32],
        }
        if topic is not None:
            keep_ms = max(1, round((validation.KEPT if keep is None else keep) * 1000))
            reply = self._store.signals.send_to_topic(
                topic, keep=keep_ms, most_waiting=MOST_WAITING, size_waiting=SIZE_WAITING, **signal
            )
            return self._receipt_of_topic(topic, name, key, reply)
        assert run_id is not None
        if not validation.is_run_id(run_id):
            raise not_found(run_id)
        return self._receipt(run_id, name, key, self._store.signals.send(run_id, **signal))

    def _signal_by_hook(
        self, run_id: str, name: str, secret: str, payload: Any, key: str | None
    ) -> bool:
        """Send a signal if this is the hook's secret.

        Returns:
            Whether the hook exists and the signal is stored. A completed run has no hook, even for
            an event that was sent to it before.
        """
        known = ""
        if RUN_ID.fullmatch(run_id) and validation.is_run_id(run_id) and is_name(name):
            try:
                [fields] = self._store.reads.some_fields([run_id], [f"h:{name}", "phase"])
                if fields.get("phase") != "completed":
                    known = fields.get(f"h:{name}", "")
            except DamagedRun:
                known = ""
        digest = sha256(secret.encode("utf-8", "replace")).hexdigest()
        if not hmac.compare_digest(digest, known):
            return False
        try:
            self.signal(run_id, name, payload, key=key, by="hook")
        except (RunNotFound, InvalidTransition):  # it has completed, or was deleted meanwhile
            return False
        return True

    def _receipt_of_topic(
        self, topic: str, name: str, key: str | None, reply: list[str]
    ) -> SignalReceipt:
        """Return a topic signal's receipt, by signal_topic.lua's reply."""
        match reply:
            case ["waiting", number]:
                return SignalReceipt(None, name, int(number), "kept")
            case ["full", "", what]:
                raise MailboxFull(
                    f"{FULL_TOPIC[what]} wait for a run to take the topic {topic!r}, as many as "
                    f"may wait; the signal {name!r} is not stored. Submit the run, or send the "
                    "signal again when some are over"
                )
            case ["conflict", "", number]:
                raise Conflict(
                    f"topic {topic}: the key {key!r:.80} is that of signal {number} that waits, "
                    "which has another payload"
                )
            case ["ok" | "unmade" | "conflict" | "full", run_id, *_]:
                return self._receipt(run_id, name, key, [reply[0], *reply[2:]])
        raise DamagedRun(
            f"topic {topic}: the server replied {' '.join(reply)}; nothing was written. "
            "Inspect that key with redis-cli"
        )

    def _receipt(self, run_id: str, name: str, key: str | None, reply: list[str]) -> SignalReceipt:
        """Return a signal's receipt, by signal_run.lua's reply."""
        match reply:
            case ["ok", number, phase]:
                return SignalReceipt(run_id, name, int(number), phase)
            case ["unmade", number, phase, *next_round]:
                self._wake(run_id, *next_round)
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

    def _wake(self, run_id: str, epoch: str, step: str, task: str, queue: str) -> None:
        """Queue a run whose signal has come, and publish its message.

        If this process dies first, a worker's sweeper queues the run.
        """
        message = self._session.message_for(task, queue, run_id, int(epoch), int(step))
        _, to_publish = self._store.signals.wake(
            run_id, epoch=int(epoch), step=int(step), message=message
        )
        if to_publish:
            self._connection.publisher.publish(to_publish)
