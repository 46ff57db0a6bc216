"""Record the picture of a real `perdure watch`, for `make picture`.

It shows a bisection whose worker is killed.

python docs/assets/record_watch.py docs/assets/watch.svg
"""

from __future__ import annotations

import io
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from perdure.worker.cli.processes.demo_stage import DemoStage
from perdure.worker.cli.views.follow import follow
from perdure.worker.cli.views.lines import last_words
from perdure.worker.cli.views.live import LiveView
from perdure.worker.domain.event import Event
from perdure.worker.domain.run import Run

WIDTH, HEIGHT = 92, 40
#: rich's own, without the fonts that it would load from the network.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, ", "Fira Code, Menlo, Consolas, "
)


class Recorded(LiveView):
    """The live view without a terminal, and without the name of this machine."""

    def __init__(self) -> None:
        super().__init__(
            Console(file=io.StringIO(), force_terminal=True, width=WIDTH, height=HEIGHT)
        )

    def show(self, run: Run, events: Sequence[Event]) -> None:
        super().show(
            run,
            [
                replace(event, data={name: _nameless(value) for name, value in event.data.items()})
                for event in events
            ],
        )

    def note(self, text: str) -> None:
        super().note(str(_nameless(text)))


def _nameless(value: object) -> object:
    return value.replace(f"{socket.gethostname()}:", "host:") if isinstance(value, str) else value


def main(target: Path) -> None:
    """Play the run and write the picture of its last look."""
    view = Recorded()
    with DemoStage() as stage:
        try:
            run = follow(stage.client, stage.submit().id, view, partial(stage.tick, view))
        finally:
            view.close()
    if run.status.value != "completed" or stage.recovered is None:
        sys.exit(
            f"the recording is not usable: the run is {run.status.value}, "
            f"recovered after {stage.recovered} s; try again"
        )
    paper = Console(
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        width=WIDTH,
        height=HEIGHT,
    )
    paper.print(Text(f"$ perdure watch {run.id}"))
    paper.print(view.render())
    for line in last_words(run):
        paper.print(Text(line, style="bold"))
    svg = paper.export_svg(
        title="perdure watch", theme=MONOKAI, code_format=FORMAT, unique_id="watch"
    )
    target.write_text(
        "\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8"
    )
    print(
        f"{target}: run {run.id}, {run.state.step} steps, "
        f"recovered {stage.recovered:.1f} s after the kill"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("watch.svg"))
