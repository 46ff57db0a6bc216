"""demo: a real bisection, its worker killed on the way, checked against git."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.exits import INTERNAL, USAGE, Failed
from worker.cli.options import json_option

if TYPE_CHECKING:
    from worker.cli.stage import Stage
    from worker.run import Run


@click.command("demo")
@json_option
def demo_command(as_json: bool) -> None:
    """Find the commit that broke a git repository, with the worker killed by SIGKILL in the middle of a round.

    Everything is made for it and removed afterwards: a server, a repository, two workers.
    """
    if shutil.which("git") is None:
        raise Failed("the demo bisects a git repository, and there is no git on PATH; install git", USAGE)
    from worker.cli.follow import follow
    from worker.cli.stage import GOAL, Stage
    from worker.cli.up import leave_on_signals
    from worker.cli.watch import view_for

    leave_on_signals()
    say = partial(click.echo, err=True) if as_json else click.echo
    began = time.monotonic()
    with Stage() as stage:
        repository = stage.repository
        say(f"A git repository of {repository.commits} commits, merges included. {repository.good} worked, {repository.bad} does not.")
        say("For it: a server, and a worker that will be killed.")
        run = stage.submit()
        say(f'submitted to the flow bisect: "{GOAL}"\n')
        view = Quiet() if as_json else view_for(False)
        try:
            run = follow(stage.client, run.id, view, partial(stage.tick, view))
        finally:
            view.close()
        found = _checked(stage, run)
        say("")
        say(f"Step {stage.killed_step} lost its worker; another one took it up {stage.recovered:.1f} s after the kill.")
        say(f"Each of the {run.state.step} steps was committed once, in order.")
        say("git bisect run, in a clone of its own ...")
        expected = stage.git_bisect()
    say(f"  holdfast: {found}\n  git:      {expected}")
    same = found == expected
    if as_json:
        output.document(
            {
                "run": run.to_dict(),
                "killed_step": stage.killed_step,
                "recovered_seconds": stage.recovered,
                "holdfast": found,
                "git": expected,
                "same": same,
            }
        )
    if not same:
        raise Failed("not the same commit", INTERNAL)
    say(f"same commit ({time.monotonic() - began:.0f} s in all)")
    say('\nNext, in two terminals:  holdfast up\n  holdfast submit countdown "try it" --input rounds=20 --input seconds=1 --watch')


def _checked(stage: Stage, run: Run) -> str:
    """The commit that the run found; raises Failed where the demonstration did not show what it should."""
    if run.status.value != "completed" or not isinstance(run.answer, dict) or "commit" not in run.answer:
        raise Failed(f"the run should have ended with a commit, it is {run.status.value}: {run.error or run.answer}", INTERNAL)
    if stage.killed_step is None or not stage.lost or stage.recovered is None:
        raise Failed("the run ended before the worker could be killed with a round in flight; try again", INTERNAL)
    _check_log(stage, run)
    return str(run.answer["commit"])


def _check_log(stage: Stage, run: Run) -> None:
    steps = [event.step for event in stage.client.events(run.id, follow=False) if event.type == "committed"]
    if steps != list(range(run.state.step)):
        raise Failed(f"each step should have been committed once, in order; the log says {steps}", INTERNAL)


class Quiet:
    """A view that shows nothing."""

    def show(self, *_: Any) -> None: ...
    def note(self, text: str) -> None: ...
    def away(self, since: float) -> None: ...
    def end(self, run: Run) -> None: ...
    def close(self) -> None: ...
