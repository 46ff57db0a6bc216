"""The messages of a conversation thread: the messages to its runs, and their answers."""

from __future__ import annotations

import json

from perdure.flows.core.files import FileReference
from perdure.flows.core.names import REMARKS
from perdure.flows.core.outcomes import SAY
from perdure.flows.core.thread_messages import (
    ARTIFACT,
    HEARD,
    ThreadMessage,
    newest_of,
    text_of,
    unpacked,
)
from perdure.worker.domain.record import ARRIVED, FOLLOWS, Record
from perdure.worker.domain.run import RunStatus, status_of
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.store.transitions import Store

#: Runs of a thread that are read.
MOST_RUNS = 100


def earlier_messages(store: Store, record: Record) -> tuple[list[ThreadMessage], bool]:
    """Return the messages of earlier runs in the thread.

    Returns:
        The messages, and whether an earlier round of the run stored them in an artifact of the run.
        The list is empty if the run follows no other run.

    Raises:
        DamagedRun: The stored data of a run cannot be read.
    """
    if FOLLOWS not in record.fields:
        return [], False
    text = store.reads.artifact(record.id, ARTIFACT)
    if text is not None:
        return unpacked(text), True
    return newest_of(thread_messages(store, record.fields[FOLLOWS], kept=True)), False


def is_in_thread(record: Record) -> bool:
    """Return whether a run has other runs in its thread.

    It follows another run of the thread, or a later run may follow it.
    """
    fields = record.fields
    return FOLLOWS in fields or ("topic" in fields and "thread_id" in fields)


def last_artifact(store: Store, record: Record, name: str) -> tuple[str, str] | None:
    """Return an artifact of the last completed run of the same flow in the thread.

    Only runs before ``record`` are searched, at most ``MOST_RUNS``.

    Args:
        name: the name of the artifact.

    Returns:
        The id of that run, and the text of its artifact. None if there is no such run, or if it
        does not have the artifact.
    """
    run_id = record.fields.get(FOLLOWS)
    for _ in range(MOST_RUNS):
        fields = None if run_id is None else store.reads.fields(run_id)
        if run_id is None or fields is None:
            return None
        is_same = fields.get("flow") == record.fields["flow"]
        if is_same and status_of(fields) is RunStatus.COMPLETED:
            text = store.reads.artifact(run_id, name)
            return None if text is None else (run_id, text)
        run_id = fields.get(FOLLOWS)
    return None


def thread_messages(store: Store, newest: str | None, kept: bool = False) -> list[ThreadMessage]:
    """Return a thread's messages up to a run.

    They are sorted, the oldest first. At most ``MOST_RUNS`` runs are read.

    Args:
        newest: the id of the run. None: the result is empty.
        kept: whether the messages are for a later run. Then those of earlier runs come from the
            artifact of a run that has stored them, and a message names its files.

    Raises:
        DamagedRun: The stored data of a run cannot be read.
    """
    parts: list[list[ThreadMessage]] = []
    run_id = newest
    while run_id is not None and len(parts) < MOST_RUNS:
        fields = store.reads.fields(run_id)
        if fields is None:
            break
        parts.append(run_messages(store, Record(fields), kept))
        text = store.reads.artifact(run_id, ARTIFACT) if kept else None
        if text is not None:
            parts.append(unpacked(text))
            break
        run_id = fields.get(FOLLOWS)
    return [message for part in reversed(parts) for message in part]


def run_messages(store: Store, record: Record, names_files: bool = False) -> list[ThreadMessage]:
    """Return the messages of one run, oldest first.

    They are the goal, the messages that the run has read, and its answer. Messages that it had not
    read when it ended come after the answer. If the run ended without an answer, the reason stands
    in its place. A live run has no answer yet.

    Args:
        names_files: whether a line below the goal names each file of the submission. A later run
            does not get the files themselves.

    Raises:
        DamagedRun: The stored data of the run cannot be read.
    """
    run_id, fields = record.id, record.fields
    goal = [fields.get("goal", ""), *(_line_of(each) for each in record.files if names_files)]
    messages = [ThreadMessage("user", "\n".join(filter(None, goal)), run_id)]
    messages += [ThreadMessage("user", text, run_id) for text in _heard(store, record)]
    told = _told(record)
    if told is not None:
        messages.append(ThreadMessage("assistant", told, run_id))
    return messages + [ThreadMessage("user", text, run_id) for text in _unread(store, record)]


def _line_of(file: FileReference) -> str:
    return f"[File {file.name}: {file.media_type}, {file.bytes} bytes, sent then, not shown now]"


def _heard(store: Store, record: Record) -> list[str]:
    places = [place for place in record.values.get(REMARKS, ()) if place >= record.forgotten]
    if not places:
        text = store.reads.artifact(record.id, HEARD) if ARRIVED in record.fields else None
        return [] if text is None else [each.text for each in unpacked(text)]
    first, last = places[0] - record.forgotten, places[-1] - record.forgotten
    turns = unpack_turns(record.id, store.reads.memory(record.id, first, last + 1))
    said = [turns[place - places[0]].observation for place in places]
    return [text_of(each[SAY]) for each in said if SAY in each]


def _unread(store: Store, record: Record) -> list[str]:
    if ARRIVED not in record.fields:
        return []
    taken, last = store.signals.counts_of(record.id, [SAY])[SAY]
    if taken == last:
        return []
    found = store.signals.stored(
        record.id, [(SAY, number) for number in range(taken + 1, last + 1)]
    )
    return [text_of(json.loads(each.payload)) for each in found if each and each.payload]


def _told(record: Record) -> str | None:
    """Return the answer of an ended run as text, or why the run has no answer.

    None if the run has not ended.
    """
    status = status_of(record.fields)
    if status is RunStatus.COMPLETED:
        return text_of(record.json("answer", None), record.mapping("output"))
    if status is RunStatus.ERRORED:
        return f"(ended with an error: {record.fields.get('error', 'unknown')})"
    return "(stopped)" if status is RunStatus.STOPPED else None
