"""Operations that send signals to runs and topics."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import is_name
from perdure.flows.core.outcomes import SAY
from perdure.worker.domain.signal import SignalReceipt
from perdure.worker.domain.token import Scope
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
from perdure.worker.operations.arguments import by_value, check_words
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session, damaged, not_found

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
    """Return the stored form of a signal's key.

    Mailboxes store the first 32 hexadecimal digits of the key's SHA-256. For example, ``order-17``
    is stored as ``72a90ea3da8b5dd01bde2f27314e02e2``.
    """
    return sha256(key.encode()).hexdigest()[:32]


def digest_of_payload(text: str) -> str:
    """Return the digest of a signal's payload.

    If a key is sent again with another digest, the signal is a Conflict.

    Args:
        text: The payload as canonical JSON.
    """
    return sha256(text.encode()).hexdigest()[:32]


@operation(
    Http("POST", "/runs/{run_id}/signals/{name}", key="key"),
    scope=Scope.SIGNAL,
    owner=Owner.RUN,
    checks={"name": by_value(validation.signal)},
)
def signal(
    session: Session,
    run_id: str | None = None,
    name: str = "",
    payload: Any = None,
    *,
    topic: str | None = None,
    key: str | None = None,
    by: str | None = None,
    keep: float | None = None,
) -> SignalReceipt:
    """Send a signal to a run, or to a topic. Once this returns, the signal is stored.

    A node waits for it with ``context.wait_for``. Signals of one name are taken in order, each
    by one committed round. A node also gets signals that came before it waited.

    Args:
        run_id: The run. None: the run that holds ``topic``.
        name: Letters, digits, ``_``, ``.`` or ``-``.
        payload: JSON data.
        topic: A topic, see ``submit``. If no run holds the topic, the signal waits for the run
            that takes it. Pass either ``run_id`` or ``topic``.
        key: Your own id of this signal. If a call with the same key is repeated, the signal is
            stored once. None: each call stores a signal.
        by: The person or service that sends the signal.
        keep: Seconds for which the signal may wait for a run that takes the topic. None: an
            hour. At most 30 days. Only for a topic.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput, UnstorableValue: An argument is not valid, or the payload is too large or
            not JSON.
        InvalidTransition: The run has completed.
        Conflict: The key belongs to a signal with another payload.
        MailboxFull: The run has 1,000 unread signals of this name, unread signals of 64 names,
            or 64 MiB of unread signals. Or 100 signals, or 1 MiB of signals, wait for a run to
            take the topic.
    """
    validation.recipient(run_id, topic, keep)
    text = canonical(storable(payload, "the payload"))
    if len(text.encode()) > session.settings.max_addition_bytes:
        raise InvalidInput(
            f"the payload takes {len(text.encode())} bytes; the limit is "
            f"{session.settings.max_addition_bytes} "
            "(max_addition_bytes). Pass a reference to large things"
        )
    fields: dict[str, Any] = {
        "name": name,
        "payload": text,
        "most": MOST_UNREAD,
        "names": MOST_NAMES,
        "size": MOST_BYTES,
        "by": by,
        "key": None if key is None else stored_key(key),
        "content": None if key is None else digest_of_payload(text),
    }
    if topic is not None:
        keep_ms = max(1, round((validation.KEPT if keep is None else keep) * 1000))
        reply = session.store.signals.send_to_topic(
            topic, keep=keep_ms, most_waiting=MOST_WAITING, size_waiting=SIZE_WAITING, **fields
        )
        return _receipt_of_topic(session, topic, name, key, reply)
    assert run_id is not None
    if not validation.is_run_id(run_id):
        raise not_found(run_id)
    return _receipt(session, run_id, name, key, session.store.signals.send(run_id, **fields))


def _encode_words(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": arguments["run_id"],
        "payload": arguments["words"],
        "key": arguments["key"],
    }


@operation(
    Http("POST", f"/runs/{{run_id}}/signals/{SAY}", key="key"),
    scope=Scope.SIGNAL,
    owner=Owner.RUN,
    checks={"words": check_words},
    encode=_encode_words,
)
def say(
    session: Session, run_id: str, words: str, *, key: str | None = None, by: str | None = None
) -> SignalReceipt:
    """Send words to a run, as the signal ``say``.

    The next controller round of the run reads the words, as a turn of its history. The run does
    not complete while words are unread. But words that would delay its end for the ninth time
    in a row stay unread: then the run completes, and its event ``unread`` names them.

    Args:
        words: The text to send.
        key: Your own id of this signal. If a call with the same key is repeated, the signal is
            stored once. None: each call stores a signal.
        by: The person or service that sends the words.

    Raises:
        RunNotFound: No run has this id.
        InvalidInput: The words are empty or too long.
        InvalidTransition: The run has completed.
        Conflict, MailboxFull: As for ``signal``.
    """
    return signal(session, run_id, SAY, words, key=key, by=by)


def signal_by_hook(
    session: Session, run_id: str, name: str, secret: str, payload: Any, key: str | None
) -> bool:
    """Send the signal of a run's hook, if ``secret`` is the secret of the hook.

    Args:
        name: The name of the hook and of its signal.
        key: The sender's id of the signal. None: a repeated call stores a further signal.

    Returns:
        Whether the signal is stored. False if the secret is wrong, or if the run does not exist or
            has completed, even if the same signal was stored before.

    Raises:
        InvalidInput, UnstorableValue: The key or the payload is not valid.
        Conflict, MailboxFull: As for ``signal``.
    """
    known = ""
    if RUN_ID.fullmatch(run_id) and validation.is_run_id(run_id) and is_name(name):
        try:
            [fields] = session.store.reads.some_fields([run_id], [f"h:{name}", "phase"])
            if fields.get("phase") != "completed":
                known = fields.get(f"h:{name}", "")
        except DamagedRun:
            known = ""
    digest = sha256(secret.encode("utf-8", "replace")).hexdigest()
    if not hmac.compare_digest(digest, known):
        return False
    validation.key(key, "key")
    try:
        signal(session, run_id, name, payload, key=key, by="hook")
    except (RunNotFound, InvalidTransition):  # it has completed, or was deleted meanwhile
        return False
    return True


def _receipt_of_topic(
    session: Session, topic: str, name: str, key: str | None, reply: list[str]
) -> SignalReceipt:
    """Return the receipt of a signal to a topic, or raise the error, for signal_topic.lua's reply.

    Raises:
        MailboxFull, Conflict, InvalidTransition: As for ``signal``.
        DamagedRun: A key or field on the state server is damaged.
    """
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
            return _receipt(session, run_id, name, key, [reply[0], *reply[2:]])
    raise DamagedRun(
        f"topic {topic}: the server replied {' '.join(reply)}; nothing was written. "
        "Inspect that key with redis-cli"
    )


def _receipt(
    session: Session, run_id: str, name: str, key: str | None, reply: list[str]
) -> SignalReceipt:
    """Return the receipt of a signal to a run, or raise the error, for signal_run.lua's reply.

    If the signal ends the wait of the run, publish the message of the run's next round.

    Raises:
        RunNotFound, MailboxFull, Conflict, InvalidTransition: As for ``signal``.
        DamagedRun: A key or field of the run is damaged.
    """
    match reply:
        case ["ok", number, phase]:
            return SignalReceipt(run_id, name, int(number), phase)
        case ["unmade", number, phase, *next_round]:
            _wake(session, run_id, *next_round)
            return SignalReceipt(run_id, name, int(number), phase, ends_wait=True)
        case ["finished", _]:
            raise InvalidTransition(
                f"run {run_id} has completed and takes no signal; its answer: perdure show {run_id}"
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


def _wake(session: Session, run_id: str, epoch: str, step: str, task: str, queue: str) -> None:
    """Queue a run that waited for a signal, and publish the message of its next round.

    ``epoch``, ``step``, ``task`` and ``queue`` are those of the next round. If this process dies
    before it has queued the run, a worker's sweeper queues the run.
    """
    message = session.message_for(task, queue, run_id, int(epoch), int(step))
    _, to_publish = session.store.signals.wake(
        run_id, epoch=int(epoch), step=int(step), message=message
    )
    if to_publish:
        session.connection.publisher.publish(to_publish)
