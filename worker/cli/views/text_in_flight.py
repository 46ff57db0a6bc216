"""The live text of the round in flight, for terminals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from perdure.worker.presentation.text import lines, plain
from perdure.worker.store import StoreUnavailable

if TYPE_CHECKING:
    from perdure.worker.client.read_api import ReadApi
    from perdure.worker.domain.stream import StreamItem

logger = logging.getLogger("perdure.watch")

#: Maximum number of lines of text in a view, if a third of the terminal has room for them.
MOST_LINES = 10
#: Maximum number of stored characters of a text. A longer text loses its first half at once: if it
#: lost single characters, its lines would move with each of them.
MOST_CHARACTERS = 8_000
#: Seconds between two attempts while the server does not answer.
AWAY_SECONDS = 1.0
#: Before each line of text.
MARGIN = "│ "
#: The style of each kind of text. Words of a flow's own have none.
STYLES = {"text": "", "thinking": "italic dim", "arguments": "dim"}


class TextInFlight:
    """The live text of the round in flight.

    The run's stream sends the text in pieces. ``take`` joins the pieces of each kind and part
    (``StreamItem``) into one text. ``rendered`` shows these texts in the order of their first
    pieces.
    """

    def __init__(self) -> None:
        self._round = (-1, 0)
        self._texts: dict[tuple[str, str], str] = {}
        self._is_retracted = False

    def take(self, item: StreamItem) -> None:
        """Apply an item of the run's stream.

        A text is appended. Text of a new round or attempt replaces the old text. The item
        ``retracted`` strikes the text of its step out, and ``committed`` removes it. Other items
        are ignored.
        """
        step, _ = self._round
        if item.type == "text":
            if (item.step, item.attempt) != self._round:
                self._round, self._texts = (item.step, item.attempt), {}
                self._is_retracted = False
            place = item.kind, item.part
            text = self._texts.get(place, "") + item.text
            self._texts[place] = text if len(text) <= MOST_CHARACTERS else text[len(text) // 2 :]
        elif item.step == step and item.type == "retracted":
            self._is_retracted = True
        elif item.step == step and item.type == "committed":
            self._texts = {}

    def rendered(self, console: Console, step: int, width: int, height: int) -> list[Text]:
        """Return the last lines of the live text of a step.

        The list is empty if the text belongs to another step, or if there is none.

        Args:
            console: The console that wraps the lines.
            step: The step to show.
            width, height: The terminal's size, in columns and lines.
        """
        if self._round[0] != step or not self._texts:
            return []
        most = max(2, min(MOST_LINES, height // 3))
        found = [
            line
            for (kind, part), text in self._texts.items()
            for line in self._wrapped(console, kind, part, text, width - len(MARGIN))
        ]
        shown = found[-most:]
        if self._is_retracted:
            note = Text("retracted: this attempt was given up", style="yellow")
            shown = [*shown[-most + 1 :], *note.wrap(console, width - len(MARGIN))[:1]]
        return [Text.assemble((MARGIN, "dim"), line) for line in shown]

    def _wrapped(self, console: Console, kind: str, part: str, text: str, width: int) -> list[Text]:
        name = plain(f"{'' if kind in STYLES else kind} {part}")
        label = (f"{name} " if name else "", "bold dim")
        whole = Text.assemble(label, (lines(text), STYLES.get(kind, "")))
        if self._is_retracted:
            whole.stylize("strike dim")
        return list(whole.wrap(console, width))


class TextReader:
    """A thread that reads a run's stream, and calls ``show`` with each item.

    It starts with the object. If the server does not answer, it tries again. Any other error ends
    the thread without a message.
    """

    def __init__(self, client: ReadApi, run_id: str, show: Callable[[StreamItem], None]) -> None:
        self._client, self._run_id, self._show = client, run_id, show
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="perdure-text", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop calling ``show``. The thread ends at the next item, or when the client is closed."""
        self._closed.set()

    def _read(self) -> None:
        after: str | None = None
        while not self._closed.is_set():
            try:
                for item in self._client.stream(self._run_id, after):
                    if self._closed.is_set():
                        return
                    after = item.id
                    self._show(item)
                return
            except StoreUnavailable:
                self._closed.wait(AWAY_SECONDS)
            # The view itself reports the problem. A server of an earlier release has no such
            # stream, and a client that is closed meanwhile raises errors of other libraries.
            except Exception:
                logger.debug("run %s: its text is not shown any more", self._run_id, exc_info=True)
                return
