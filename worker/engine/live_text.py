"""Writes the live text of the rounds that this process runs.

One thread writes for all rounds. It writes the first piece of text at once. Pieces that come during
a write are written together by the next one. At the end of a round, the round's own thread writes
the rest, so that all text of the round is stored before its commit.
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
    """The live texts of the rounds in this process, and the thread that writes them."""

    def __init__(self, store: Store) -> None:
        self.records = LiveTextRecords(store)
        self._rounds: dict[RoundText, None] = {}
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None

    def wake(self, text: RoundText) -> None:
        """Make the thread write a round's unwritten text soon. Start the thread if it has ended."""
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
    """The live text of one round. Several threads may call its methods.

    Args:
        fence: The round's claim. If it loses the run's lease, no further text of the round is
            written.
        step, attempt: Those of the round.
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
        """Append a piece to the round's live text.

        The piece is dropped if it is empty, if the round has lost its lease, if an earlier write
        failed, or if the round has written more than ``MOST_OF_ROUND`` characters already.
        ``RoundContext.stream`` explains
        ``kind`` and ``part``.
        """
        if not text or self._is_lost or self._characters > MOST_OF_ROUND:
            return
        with self._lock:
            self._characters += len(text)
            self._waiting.append((kind, part, text))
        self._texts.wake(self)

    def end(self) -> None:
        """Write the text that is not written yet.

        A failed write is logged, and no error is raised. After it, no further text of the round is
        written.
        """
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
