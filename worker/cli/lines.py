"""Views of a run for pipes: a line an event, or a JSON document an event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from worker.words.costs import facts
from worker.words.story import row_of
from worker.words.texts import clock, duration, plain

if TYPE_CHECKING:
    from worker.event import Event
    from worker.run import Run


class Lines:
    """A line an event, as they come; the end of the run as ``show`` tells it."""

    def __init__(self) -> None:
        self._away = False

    def show(self, run: Run, events: Sequence[Event]) -> None:
        if self._away:
            self._away = False
            self.note("the server answers again")
        for event in events:
            row = row_of(event)
            took = f"  {duration(row.took)}" if row.took is not None else ""
            attempt = f"  attempt {row.attempt}" if row.attempt > 1 else ""
            cost = "".join(f"  {plain(each)}" for each in facts(event.data)) if row.is_round else ""
            click.echo(f"{clock(event.at)}  step {row.step}  {row.node}  {row.said}{took}{cost}{attempt}")

    def note(self, text: str) -> None:
        click.echo(text)

    def away(self, since: float) -> None:
        if not self._away:
            self._away = True
            self.note("the server does not answer; looking on")

    def end(self, run: Run) -> None:
        for line in last_words(run):
            click.echo(line)

    def close(self) -> None:
        pass


class JsonLines:
    """An event a line as JSON, and on the last line ``{"type": "end", "run": {...}}``."""

    def show(self, run: Run, events: Sequence[Event]) -> None:
        for event in events:
            click.echo(json.dumps(event.to_dict()))

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def away(self, since: float) -> None:
        pass

    def end(self, run: Run) -> None:
        click.echo(json.dumps({"type": "end", "run": run.to_dict()}))

    def close(self) -> None:
        pass


def last_words(run: Run) -> list[str]:
    """What a run's end, or pause, has to say: the answer, the error, the question and how to go on."""
    from worker.cli.on_app import program
    from worker.waiting import Waiting
    from worker.words.asked import what
    from worker.words.texts import lines, value_text

    status = run.status.value
    if status == "completed":
        used = run.details.get("unfinished")
        more = [f"go on: holdfast resume {run.id} --add cycles={used['cycles']}"] if used else []
        return [f"{'answer' if run.finished else run.status_text}: {value_text(run.answer)}", *more]
    if status == "errored":
        return [f"error: {lines(run.error or '')}", f"try again: holdfast retry {run.id}"]
    waiting = Waiting.of(run)
    if status == "interrupted" and waiting is not None:
        command = [] if waiting.command is None and waiting.kind != "budget" else [what(waiting)]
        return [f"interrupted: {plain(waiting.question)}", *command, *(f"go on: {way}" for way in waiting.how(program()))]
    if status == "stopped":
        return [f"stopped at step {run.state.step}", f"go on: holdfast resume {run.id}"]
    return []
