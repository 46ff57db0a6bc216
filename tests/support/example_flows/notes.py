"""Flows that keep notes for later runs."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

from perdure import (
    Command,
    ControllerExecutorFlow,
    Finish,
    Note,
    RoundContext,
    command,
    lifespan,
    register,
)
from perdure.flows.controllers.model import ModelController
from perdure.testing import FakeModel

NAMESPACE = "user:{submitted_by}"


@register("note_taker")
class Noting(ControllerExecutorFlow):
    """Keeps its goal as a note, and answers the earlier notes."""

    def decide(self, context: RoundContext) -> Command | Finish:
        if not len(context.history):
            return Command("keep", {"text": context.goal})
        return Finish(context.history[0].observation)

    @command(idempotent=True)
    def keep(self, context: RoundContext, text: str) -> list[str]:
        """Keep a text, and return what was there before."""
        notes = context.notes(NAMESPACE)
        before = [note.text for note in notes.search() if note.run_id != context.run_id]
        notes.put(text, value={"pid": os.getpid()})
        if context.goal == "die" and context.attempt == 1:
            os.kill(os.getpid(), 9)
        return before


class SqliteNotes:
    """Notes in a table of SQLite."""

    def __init__(self, path: str = ":memory:") -> None:
        self._lock = threading.Lock()
        self.db = sqlite3.connect(path, check_same_thread=False)
        self.db.execute("create table n (space, key, text, at, primary key (space, key))")

    def close(self) -> None:
        self.db.close()

    def put(self, namespace: str, note: Note) -> None:
        row = (namespace, note.key, note.text, note.at.isoformat())
        with self._lock, self.db:
            self.db.execute("insert or replace into n values (?, ?, ?, ?)", row)

    def get(self, namespace: str, key: str) -> Note | None:
        found = self._read("space = ? and key = ?", namespace, key)
        return found[0] if found else None

    def search(self, namespace: str, words: str, limit: int) -> list[Note]:
        return self._read("space = ? and text like ?", namespace, f"%{words}%")[:limit]

    def forget(self, namespace: str, key: str) -> bool:
        with self._lock, self.db:
            cursor = self.db.execute("delete from n where space = ? and key = ?", (namespace, key))
        return bool(cursor.rowcount)

    def _read(self, where: str, *values: str) -> list[Note]:
        with self._lock:
            rows = self.db.execute(
                f"select key, text, at from n where {where} order by at desc", values
            ).fetchall()
        return [Note(key, text, at=datetime.fromisoformat(at)) for key, text, at in rows]


@lifespan(name="sqlite_notes")
def sqlite_notes() -> Iterator[SqliteNotes]:
    with closing(SqliteNotes()) as store:
        yield store


@register("noting_elsewhere")
class NotingElsewhere(Noting):
    """Keeps its notes in a store of its own."""

    note_store = sqlite_notes


#: A model that remembers its inputs, and answers its knowledge.
FakeModel(
    lambda messages, commands: (
        Finish(messages[1].text)
        if any(message.role == "tool" for message in messages)
        else Command("remember", {"text": messages[-1].text.split("\n")[-1], "key": "last"})
    ),
    name="noter",
)


@register("model_noting")
class ModelNoting(ControllerExecutorFlow):
    """A model that reads and writes notes."""

    controller = ModelController(model="fake:noter", notes=NAMESPACE)
