"""The live view of a run on a terminal, drawn with rich; readable from 40 columns on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.cli.lines import last_words
from worker.cli.output import colour_of
from worker.words.costs import EXHAUSTED, LOW, totals
from worker.words.numbers import progress_of
from worker.words.story import GIT_ID, Row, round_text, row_of
from worker.words.texts import count, duration, plain, since

if TYPE_CHECKING:
    from worker.event import Event
    from worker.run import Run

TONES = {"round": "", "good": "green", "bad": "bold red", "wait": "yellow", "note": "bold magenta"}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
#: Lines that are not rows of the table: three of head, one empty, the table's head, "earlier rounds", two of foot, the cursor's.
FRAME_LINES = 9
#: From this width on the rows name their node, and from this one on there is room for everything.
MEDIUM, WIDE = 60, 90
#: Wider than this no line is drawn: what belongs together should stand together.
WIDEST = 110
#: A thought is left out where less of it than this would be seen beside its command, which comes first.
LEAST_THOUGHT = 12
#: Seconds without an answer before that is said.
SILENCE = 2.0
WAITS = {
    "retry": "waits before the next attempt",
    "loss": "waits after workers were lost",
    "hold": "waits until the stopped round lets go",
    "start": "waits for its time to start",
    "provider": "waits for its provider",
    "paused": "waits: its flow is paused, looked at",
}


class LiveView:
    """Head, rounds, the round in flight; drawn anew several times a second by rich's own thread."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=1000)
        self._earlier = 0
        self._run: Run | None = None
        self._pending = ""
        self._seen = 0.0
        self._over = False
        self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=8, vertical_overflow="crop")
        self._started = False

    def show(self, run: Run, events: Sequence[Event]) -> None:
        with self._lock:
            self._run, self._seen = run, time.monotonic()
            for event in events:
                if event.type == "committed":
                    self._pending = round_text(event.data) if "observation" not in event.data else ""
                if event.type not in ("submitted", "completed"):
                    self._add(row_of(event))
        if not self._started:
            self._started = True
            self._live.start()

    def note(self, text: str) -> None:
        with self._lock:
            self._add(Row(-1, "", 0, text, tone="note"))

    def away(self, since: float) -> None:
        """Nothing to do: a look that takes long tells it sooner than one that has failed."""

    def end(self, run: Run) -> None:
        with self._lock:
            self._over = True
        self.close()
        for line in last_words(run):
            self.console.print(Text(line, style="bold"), soft_wrap=True)

    def close(self) -> None:
        if self._started:
            self._started = False
            self._live.stop()

    def render(self) -> RenderableType:
        """The picture as of now, for the console's present size."""
        with self._lock:
            if self._run is None:
                return Text("")
            width, height = min(self.console.width, WIDEST), self.console.height
            return Group(*self._head(self._run, width), self._table(self._run, width, height), *self._foot(self._run))

    def _add(self, row: Row) -> None:
        self._earlier += len(self._rows) == self._rows.maxlen
        self._rows.append(row)

    def _head(self, run: Run, width: int) -> list[RenderableType]:
        taken = (run.updated_at - run.created_at).total_seconds() if run.status.ended else since(run.created_at)
        first = Text.assemble((plain(run.flow), "bold"), "  ", plain(run.goal), no_wrap=True, overflow="ellipsis")
        gap = "  " if width >= MEDIUM else " "
        second = Text.assemble((run.id, "dim"), gap, (run.status_text, colour_of(run.status_text)), no_wrap=True, overflow="ellipsis")
        second.append(f"{gap}step {run.state.step}{gap}{duration(taken)}")
        return [first, second, *_totals(run), Text("")]

    def _table(self, run: Run, width: int, height: int) -> RenderableType:
        flight = [] if self._over else self._in_flight(run)
        room = max(3, height - FRAME_LINES - len(flight))
        shown = list(self._rows)[-room:]
        table = Table(box=None, pad_edge=False, width=width, header_style="dim", padding=(0, 1, 0, 0))
        table.add_column("step", justify="right", no_wrap=True, width=4)
        if width >= MEDIUM:
            table.add_column("node", no_wrap=True, overflow="ellipsis", max_width=14)
        table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("time", justify="right", no_wrap=True)
        if width >= MEDIUM:
            table.add_column("attempt" if width >= WIDE else "try", justify="right", no_wrap=True)
        rows = [*shown, *flight]
        room = width - self._taken(rows, width)
        last = None
        for row in rows:
            number = "" if row.step == last or row.step < 0 else str(row.step)
            last = row.step
            cells: list[Text | str] = [
                Text(number, style="dim"),
                _said(row, room),
                duration(row.took) if row.took is not None else "",
            ]
            if width >= MEDIUM:
                cells.insert(1, Text(row.node))
                cells.append(str(row.attempt or ""))
            table.add_row(*cells)
        hidden = len(self._rows) - len(shown) + self._earlier
        if not hidden:
            return table
        return Group(Text(f"… {hidden} earlier", style="dim"), table)

    @staticmethod
    def _taken(rows: Sequence[Row], width: int) -> int:
        """Characters of a line that the other columns take: step and time, and on wider terminals node and attempt."""
        taken = 5 + 1 + max((len(duration(row.took)) for row in rows if row.took is not None), default=0)
        if width >= MEDIUM:
            taken += 1 + min(14, max((len(row.node) for row in rows), default=0)) + 1 + len("attempt" if width >= WIDE else "try")
        return taken

    def _in_flight(self, run: Run) -> list[Row]:
        details, node = run.details, run.state.current_node
        if run.phase == "leased":
            progress = details.get("progress") or {}
            text = str(progress.get("text") or "") or self._pending or "in flight"
            if far := progress_of(progress):
                text = f"{far} · {text}"
            return [
                Row(run.state.step, node, int(details["attempt"]), f"{self._spin()} {plain(text)}", since(details["claimed_at"]), "good")
            ]
        if run.phase == "waiting":
            until = details.get("waiting_until")
            left = f", {duration(_until(until))} to go" if until else ""
            return [Row(run.state.step, node, 0, f"{WAITS.get(details.get('waiting_for', ''), 'waits')}{left}", tone="wait")]
        if run.phase == "queued":
            return [Row(run.state.step, node, 0, "in line for a worker", tone="wait")]
        return []

    def _foot(self, run: Run) -> list[RenderableType]:
        if self._over:
            return [Text("")]
        silence = time.monotonic() - self._seen
        if silence > SILENCE:
            return [Text(""), Text(f"the server has been silent for {duration(silence)}; looking on", style="bold red")]
        details = run.details
        text = str(run.phase)
        if details.get("owner"):
            left = _until(details["lease_until"])
            lease = f"lease {duration(left)}" if left > 0 else "lease lapsed"
            text = f"played by {details['owner']}, attempt {details['attempt']}, {lease}"
        if details.get("losses"):
            text += f", {count(details['losses'], 'worker')} lost"
        return [Text(""), Text(text, style="dim", no_wrap=True, overflow="ellipsis")]

    def _spin(self) -> str:
        return SPINNER[int(time.monotonic() * 8) % len(SPINNER)]


def _until(moment: str) -> float:
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


def _totals(run: Run) -> list[Text]:
    """A line with what the run has used, and of what limits; none where there is nothing to say."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for text, share in totals(run):
        line.append(" · " if line else "", "dim")
        line.append(text, "red" if share >= EXHAUSTED else "yellow" if share >= LOW else "dim")
    return [line] if line else []


def _said(row: Row, room: int) -> Text:
    """What a row says in so many characters: as much of the thought as leaves the command whole."""
    text = Text(_cut(row.text), style=TONES[row.tone])
    left = room - text.cell_len - len(" · ")
    if not row.thought or left < min(LEAST_THOUGHT, len(row.thought)):
        return text
    thought = Text(row.thought, style="italic dim")
    thought.truncate(left, overflow="ellipsis")
    return Text.assemble(thought, " · ", text)


def _cut(text: str) -> str:
    return GIT_ID.sub(r"\1", text)
