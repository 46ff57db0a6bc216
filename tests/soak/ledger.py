"""Ledger: the effects of rounds in the world outside of Redis, written by the rounds themselves,
and a receiver that honours keys.

One line of JSON each, appended in one write: lines under 4 KiB of many processes do not mix. The
receiver is a directory: an effect's file is linked into place under its key, whole or not at all,
by the first to come.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.soak.history import Effect

#: The bytes read from the ledger's end, to see who is at work: some thousand lines, more than any
#: lease lasts.
RECENT_BYTES = 1 << 19


class Ledger:
    """The ledger in ``directory``, made if missing."""

    def __init__(self, directory: Path) -> None:
        self._lines = directory / "ledger.jsonl"
        self._receiver = directory / "applied"
        self._receiver.mkdir(parents=True, exist_ok=True)

    def tried(self, run: str, step: int, attempt: int, key: str) -> None:
        """Record that a round begins."""
        self._append(Effect(run, step, attempt, key, "tried", time.time(), os.getpid()))

    def apply(self, run: str, step: int, attempt: int, key: str) -> None:
        """Send the round's effect to its receiver, which applies it or knows the key already."""
        effect = Effect(run, step, attempt, key, "applied", time.time(), os.getpid())
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        folder = self._receiver / name[:2]
        folder.mkdir(exist_ok=True)
        letter = folder / f"{name}.{os.getpid()}.{time.monotonic_ns()}"
        letter.write_text(_line(effect))
        with suppress(FileExistsError):
            os.link(letter, folder / name)
        letter.unlink()

    def left(self, run: str, step: int, attempt: int, key: str) -> None:
        """Record that the round has ended well and enqueued the next; for engines without a commit
        log of their own.
        """
        self._append(Effect(run, step, attempt, key, "left", time.time(), os.getpid()))

    def effects(self) -> list[Effect]:
        """Return all records, each kind in order of time."""
        tried = _read(self._lines.read_text().splitlines()) if self._lines.exists() else []
        # A file with a dot was being written when its writer was killed: nothing of it was
        # received.
        applied = _read(
            path.read_text() for path in self._receiver.glob("*/*") if "." not in path.name
        )
        return sorted([*tried, *applied], key=lambda effect: effect.at)

    def at_work(self, pids: Iterable[int]) -> list[int]:
        """Return the ``pids`` that have begun a round within the last second, which most take."""
        if not self._lines.exists():
            return []
        with self._lines.open("rb") as lines:
            lines.seek(max(0, lines.seek(0, os.SEEK_END) - RECENT_BYTES))
            recent = lines.read().decode().splitlines()[1:]
        lately = time.time() - 1.0
        busy = {effect.pid for effect in _read(recent) if effect.at > lately}
        return [pid for pid in pids if pid in busy]

    def _append(self, effect: Effect) -> None:
        handle = os.open(self._lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, _line(effect).encode())
        finally:
            os.close(handle)


def _line(effect: Effect) -> str:
    return json.dumps(effect.__dict__) + "\n"


def _read(lines: Iterable[str]) -> list[Effect]:
    return [Effect(**json.loads(line)) for line in lines]
