"""Writes the live text of the rounds that this process plays.

One thread writes for all rounds. The first piece is written at once. Pieces that come meanwhile are
written together. At the end of a round, the round's thread writes the rest, so that all text of a
round is stored before its commit.
"""

from __future__ import annotations

import logging
import threading
import time
from itertools import groupby

from perdure.flows.core.errors import PerdureError
from perdure.flows.core.live_text import LiveText
from perdure.worker.store import Store
from perdure.worker.store.fence import Fence
from perdure.worker.store.live_text import LiveTextRecords

logger = logging.getLogger("perdure.rounds")

#: Seconds between two writes of a round's text.
WRITE_SECONDS = 0.02
#: Characters of an entry. A longer text is several entries.
MOST_CHARACTERS = 8_000
#: Maximum characters of a round's text. Later ones are not shown.
MOST_OF_ROUND = 1_000_000
#: Seconds without text after which the thread ends.
IDLE_SECONDS = 5.0


class LiveTexts:
    """The live texts of the rounds in this process."""

    def __init__(self, store: Store) -> None:
        self.records = LiveTextRecords(store)
        self._rounds: dict[RoundText, None] = {}
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None

    def wake(self, text: RoundText) -> None:
        """Write a round's waiting text soon."""
        with self._lock:
            self._rounds[text] = None
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write, name="perdure-live-text", daemon=True
                )
                self._thread.start()
            self._lock.notify()

    def _write(self) -> None:
        while True:
            with self._lock:
                if not self._rounds and not self._lock.wait(IDLE_SECONDS) and not self._rounds:
                    self._thread = None
                    return
                rounds, self._rounds = self._rounds, {}
            for text in rounds:
                text.end()
            time.sleep(WRITE_SECONDS)


class RoundText(LiveText):
    """The live text of one round. Its methods may be called from several threads.

    Args:
        fence: the round's claim. Without its lease, no more text of the round is shown.
    """

    _number = _characters = 0
    _is_lost = False

    def __init__(self, texts: LiveTexts, fence: Fence, step: int, attempt: int) -> None:
        self._texts, self._fence = texts, fence
        self._step, self._attempt = step, attempt
        #: Kind, part and text of each piece that is not written yet.
        self._waiting: list[tuple[str, str, str]] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()

    def write(self, text: str, kind: str, part: str) -> None:
        """Show a piece of the round's text, after the earlier pieces."""
        if not text or self._is_lost or self._characters > MOST_OF_ROUND:
            return
        with self._lock:
            self._characters += len(text)
            self._waiting.append((kind, part, text))
        self._texts.wake(self)

    def end(self) -> None:
        """Write the waiting text. After a failure, which is logged, no more text is shown."""
        if not self._characters:
            return
        # Two threads keep the order, and the end of a round waits for the other thread's write.
        with self._writing:
            with self._lock:
                pieces, self._waiting = self._waiting, []
            if not pieces or self._is_lost:
                return
            entries = self._entries(pieces)
            try:
                # A round that has lost its lease is given up, and so is its text.
                self._is_lost = not self._texts.records.append(
                    self._fence, self._step, self._attempt, entries
                )
            except PerdureError as error:  # The server is away, or full, or the key is damaged.
                self._is_lost = True
                logger.warning(
                    "run %s, step %d: its text is not shown any more until its next round: %s",
                    self._fence.run_id, self._step, error,
                )  # fmt: skip

    def _entries(self, pieces: list[tuple[str, str, str]]) -> list[dict[str, str | int]]:
        entries: list[dict[str, str | int]] = []
        for (kind, part), texts in groupby(pieces, lambda piece: piece[:2]):
            whole = "".join(text for _, _, text in texts).encode(errors="replace").decode()
            for start in range(0, len(whole), MOST_CHARACTERS):
                entries.append(
                    {
                        "number": self._number,
                        "kind": kind,
                        "part": part,
                        "text": whole[start : start + MOST_CHARACTERS],
                    }
                )
                self._number += 1
        return entries
