"""The live view of a run, drawn with rich. It needs at least 40 columns."""

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

from perdure.worker.cli.output import colour_of
from perdure.worker.cli.views.lines import last_words, lines_below
from perdure.worker.cli.views.text_in_flight import TextInFlight
from perdure.worker.presentation.text import (
    count,
    duration,
    parked_text,
    plain,
    progress_of,
    since,
)
from perdure.worker.presentation.timeline import GIT_ID, Row, round_text, row_of
from perdure.worker.presentation.usage import EXHAUSTED, LOW, totals

if TYPE_CHECKING:
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.stream import StreamItem

#: The style of each tone of a row.
TONES = {"round": "", "good": "green", "bad": "bold red", "wait": "yellow", "note": "bold magenta"}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
#: Lines beside the table's rows: three of the head, one empty, the table's head, "… earlier", two
#: of the foot, and the cursor's.
FRAME_LINES = 9
#: Widths of the terminal: from MEDIUM on, rows name their node. From WIDE on, no column is
#: shortened.
MEDIUM, WIDE = 60, 90
#: No line is wider than this, so that the columns stay close together.
WIDEST = 110
#: A thought is left out if fewer of its characters than this fit beside its command.
LEAST_THOUGHT = 12
#: Seconds without an answer after which the view says so.
SILENCE = 2.0
#: Texts for the row of a waiting run, by reason.
WAITS = {
    "retry": "waiting to retry",
    "loss": "waiting to retry after a lost worker",
    "hold": "waiting for the stopped round to end",
    "start": "waiting for its start time",
    "provider": "waiting for its provider",
    "code": "waiting for a worker whose code fits",
    "budget": "waiting for a budget of a run above",
    "paused": "waiting: the flow is paused; next check",
}


class LiveView:
    """A terminal's view of a run: head, rounds, live text and foot.

    A thread of rich redraws it 8 times a second.
    """

    shows_text = True

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=1000)
        self._earlier = 0
        self._run: Run | None = None
        self._pending = ""
        self._text = TextInFlight()
        self._seen = 0.0
        self._over = False
        self._live = Live(
            get_renderable=self.render,
            console=self.console,
            refresh_per_second=8,
            vertical_overflow="crop",
        )
        self._started = False

    def show(self, run: Run, events: Sequence[Event]) -> None:
        with self._lock:
            self._run, self._seen = run, time.monotonic()
            for event in events:
                if event.type == "committed":
                    self._pending = (
                        round_text(event.data) if "observation" not in event.data else ""
                    )
                if event.type not in ("submitted", "completed"):
                    self._add(row_of(event))
        if not self._started:
            self._started = True
            self._live.start()

    def show_text(self, item: StreamItem) -> None:
        with self._lock:
            self._text.take(item)

    def note(self, text: str) -> None:
        with self._lock:
            self._add(Row(-1, "", 0, text, tone="note"))

    def ask_below(self, waiting: PendingInterrupt) -> None:
        # Above the display, where it is not shortened and stays.
        for line in lines_below(waiting):
            self.console.print(Text(line, style="bold yellow"), soft_wrap=True)

    def away(self, since: float) -> None:
        """Do nothing: the foot of the live view already shows that the server does not answer."""

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
        """Return the current content of the view, for the terminal's current size."""
        with self._lock:
            if self._run is None:
                return Text("")
            width, height = min(self.console.width, WIDEST), self.console.height
            step = -1 if self._over else self._run.state.step
            text = self._text.rendered(self.console, step, width, height)
            return Group(
                *self._head(self._run, width),
                self._table(self._run, width, height - len(text)),
                *text,
                *self._foot(self._run),
            )

    def _add(self, row: Row) -> None:
        self._earlier += len(self._rows) == self._rows.maxlen
        self._rows.append(row)

    def _head(self, run: Run, width: int) -> list[RenderableType]:
        taken = (
            (run.updated_at - run.created_at).total_seconds()
            if run.status.ended
            else since(run.created_at)
        )
        first = Text.assemble(
            (plain(run.flow), "bold"), "  ", plain(run.title), no_wrap=True, overflow="ellipsis"
        )
        gap = "  " if width >= MEDIUM else " "
        second = Text.assemble(
            (run.id, "dim"),
            gap,
            (run.status_text, colour_of(run.status_text)),
            no_wrap=True,
            overflow="ellipsis",
        )
        renewed = run.details.get("generation")
        generation = f"generation {renewed}{gap}" if renewed else ""
        second.append(f"{gap}{generation}step {run.state.step}{gap}{duration(taken)}")
        return [first, second, *_totals(run), Text("")]

    def _table(self, run: Run, width: int, height: int) -> RenderableType:
        flight = [] if self._over else self._in_flight(run)
        room = max(3, height - FRAME_LINES - len(flight))
        shown = list(self._rows)[-room:]
        table = Table(
            box=None, pad_edge=False, width=width, header_style="dim", padding=(0, 1, 0, 0)
        )
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
        """Return the width of all table columns except the text's.

        ``width`` is that of the terminal. From MEDIUM on, node and attempt have columns too.
        """
        taken = (
            5
            + 1
            + max((len(duration(row.took)) for row in rows if row.took is not None), default=0)
        )
        if width >= MEDIUM:
            taken += (
                1
                + min(14, max((len(row.node) for row in rows), default=0))
                + 1
                + len("attempt" if width >= WIDE else "try")
            )
        return taken

    def _in_flight(self, run: Run) -> list[Row]:
        details, node = run.details, run.state.current_node
        if run.phase == "leased":
            progress = details.get("progress") or {}
            text = str(progress.get("text") or "") or self._pending or "in flight"
            if far := progress_of(progress):
                text = f"{far} · {text}"
            return [
                Row(
                    run.state.step,
                    node,
                    int(details["attempt"]),
                    f"{self._spin()} {plain(text)}",
                    since(details["claimed_at"]),
                    "good",
                )
            ]
        if run.phase == "waiting":
            until = details.get("waiting_until")
            left = f", {duration(_until(until))} left" if until else ""
            return [
                Row(
                    run.state.step,
                    node,
                    0,
                    f"{WAITS.get(details.get('waiting_for', ''), 'waiting')}{left}",
                    tone="wait",
                )
            ]
        if run.phase == "parked":
            text = f"waits {parked_text(details)}"
            return [Row(run.state.step, node, 0, text, tone="wait")]
        if run.phase == "queued":
            return [Row(run.state.step, node, 0, "queued for a worker", tone="wait")]
        return []

    def _foot(self, run: Run) -> list[RenderableType]:
        if self._over:
            return [Text("")]
        silence = time.monotonic() - self._seen
        if silence > SILENCE:
            return [
                Text(""),
                Text(
                    f"no answer from the server for {duration(silence)}; retrying",
                    style="bold red",
                ),
            ]
        details = run.details
        text = str(run.phase)
        if details.get("owner"):
            left = _until(details["lease_until"])
            lease = f"lease {duration(left)}" if left > 0 else "lease expired"
            text = f"on {details['owner']}, attempt {details['attempt']}, {lease}"
        if details.get("losses"):
            text += f", {count(details['losses'], 'worker')} lost"
        return [Text(""), Text(text, style="dim", no_wrap=True, overflow="ellipsis")]

    def _spin(self) -> str:
        return SPINNER[int(time.monotonic() * 8) % len(SPINNER)]


def _until(moment: str) -> float:
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


def _totals(run: Run) -> list[Text]:
    """Return a list with one line of the run's usage and budgets.

    The list is empty if there is neither usage nor a budget.
    """
    line = Text(no_wrap=True, overflow="ellipsis")
    for text, share in totals(run):
        line.append(" · " if line else "", "dim")
        line.append(text, "red" if share >= EXHAUSTED else "yellow" if share >= LOW else "dim")
    return [line] if line else []


def _said(row: Row, room: int) -> Text:
    """Return a row's text, with the controller's thought in front.

    If both together need more than ``room`` characters, the thought is cut. It is left out if fewer
    than LEAST_THOUGHT of its characters would remain.
    """
    text = Text(_cut(row.text), style=TONES[row.tone])
    left = room - text.cell_len - len(" · ")
    if not row.thought or left < min(LEAST_THOUGHT, len(row.thought)):
        return text
    thought = Text(row.thought, style="italic dim")
    thought.truncate(left, overflow="ellipsis")
    return Text.assemble(thought, " · ", text)


def _cut(text: str) -> str:
    return GIT_ID.sub(r"\1", text)
