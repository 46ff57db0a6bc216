"""Views of a run for output that is no terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perdure.worker.presentation.text import clock, duration, plain
from perdure.worker.presentation.timeline import row_of
from perdure.worker.presentation.usage import facts

if TYPE_CHECKING:
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.stream import StreamItem


class PipeView:
    """Base of the views for output that is no terminal. They show no live text of a round."""

    shows_text = False

    def show_text(self, item: StreamItem) -> None:
        pass


class LinesView(PipeView):
    """A view that prints one line per event. At last it prints the answer, error or question."""

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
            click.echo(
                f"{clock(event.at)}  step {row.step}  {row.node}  {row.said}{took}{cost}{attempt}"
            )

    def note(self, text: str) -> None:
        click.echo(text)

    def ask_below(self, waiting: PendingInterrupt) -> None:
        for line in lines_below(waiting):
            click.echo(line)

    def away(self, since: float) -> None:
        if not self._away:
            self._away = True
            self.note("the server does not answer; retrying")

    def end(self, run: Run) -> None:
        for line in last_words(run):
            click.echo(line)

    def close(self) -> None:
        pass


class JsonLinesView(PipeView):
    """A view that prints one JSON object per line and event.

    The last line is ``{"type": "end", "run": ...}``. If a run below the followed run asks a person,
    an extra line ``{"type": "asked_below", ...}`` is printed. Notes go to stderr.
    """

    def show(self, run: Run, events: Sequence[Event]) -> None:
        for event in events:
            click.echo(json.dumps(event.to_dict()))

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def ask_below(self, waiting: PendingInterrupt) -> None:
        click.echo(json.dumps({"type": "asked_below", "waiting": waiting.to_dict()}))

    def away(self, since: float) -> None:
        pass

    def end(self, run: Run) -> None:
        click.echo(json.dumps({"type": "end", "run": run.to_dict()}))

    def close(self) -> None:
        pass


def last_words(run: Run) -> list[str]:
    """Return the lines to print when a followed run has ended or is interrupted.

    They have the run's answer, error or question, and the commands that continue the run. For any
    other run, the list is empty.
    """
    from perdure.worker.cli.celery_command import program
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.domain.remedy import command_of
    from perdure.worker.presentation.text import lines, value_text

    status = run.status.value
    if status == "completed":
        limit = run.details.get("unfinished")
        more = (
            [f"go on: {program()} resume {run.id} --add cycles={limit['cycles']}"] if limit else []
        )
        return [f"{'answer' if run.finished else run.status_text}: {value_text(run.answer)}", *more]
    if status == "errored":
        command = command_of(run.id, run.details.get("remedy"))
        return [f"error: {lines(run.error or '')}", f"try again: {program()} {command}"]
    waiting = PendingInterrupt.of(run)
    if status == "interrupted" and waiting is not None:
        return [f"interrupted: {plain(waiting.question)}", *_ways(waiting)]
    if status == "stopped":
        return [f"stopped at step {run.state.step}", f"go on: {program()} resume {run.id}"]
    return []


def lines_below(waiting: PendingInterrupt) -> list[str]:
    """Return the lines about a run below the followed run that asks a person.

    They have the question, and the commands that answer it.
    """
    head = f"run {waiting.run_id} ({waiting.flow}), for which this run waits, asks a person"
    return [f"{head}: {plain(waiting.question)}", *_ways(waiting)]


def _ways(waiting: PendingInterrupt) -> list[str]:
    """Return lines with a question's details and the commands that answer it."""
    from perdure.worker.cli.celery_command import program
    from perdure.worker.presentation.questions import beside, what

    more = [what(waiting)] if waiting.command or waiting.kind == "budget" else []
    more += [f"with: {text}"] if (text := beside(waiting)) else []
    return [*more, *(f"go on: {way}" for way in waiting.how(program()))]
