"""The command ``demo``: a run with three agents, whose worker is killed.

The result is compared with that of ``git bisect``.
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import INTERNAL, USAGE, Failed
from perdure.worker.cli.options import json_option
from perdure.worker.cli.processes.child import leave_on_signals
from perdure.worker.cli.processes.demo_stage import GOAL, SAID, DemoStage
from perdure.worker.cli.views.lines import PipeView
from perdure.worker.presentation.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.worker.domain.event import Event
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.domain.run import Run

#: Seconds that the root run has to complete once the bisecting agent has completed.
ROOT_SECONDS = 30.0


@click.command("demo")
@json_option
def demo_command(as_json: bool) -> None:
    """Run three agents on a git repository, and kill their worker with SIGKILL.

    One agent bisects, and two count. Something is said to one of them while no worker lives.
    Starts its own server and workers, makes a repository, and removes all of it afterwards.
    """
    if shutil.which("git") is None:
        raise Failed("the demo needs git, which is not on PATH; install git", USAGE)
    from perdure.worker.cli.commands.watch import view_for
    from perdure.worker.cli.views.follow import follow

    leave_on_signals()
    say = partial(click.echo, err=True) if as_json else click.echo
    began = time.monotonic()
    with DemoStage() as stage:
        repository = stage.repository
        say(
            f"Made a git repository of {repository.commits} commits, merges included. "
            f"{repository.good} is good, {repository.bad} is bad."
        )
        say("Started a server, and a worker that will be killed.")
        run = stage.submit()
        say(f'Submitted the goal "{GOAL}". It has three agents; this is the first:\n')
        view = QuietStream() if as_json else view_for(False)
        try:
            run = follow(stage.client, run.id, view, partial(stage.tick, view))
        finally:
            view.close()
        commit = _check_commit(stage, run)
        root = stage.client.wait(stage.root, ROOT_SECONDS)
        tree = [root, *stage.client.children(root.id)]
        steps, lost = _check_tree(stage, tree)
        say("")
        if not as_json:
            _show(tree)
        say(
            f"\nThe kill hit {lost} of {len(tree) - 1} agents in the middle of a round.\n"
            f"Another worker took over {stage.recovered:.1f} s later."
        )
        say(
            f'"{SAID}", said while no worker lived, was heard: '
            f"{tree[-1].answer[SAID]} lots of {SAID}."
        )
        say(f"Lost: nothing. Each of the {len(tree)} runs completed, and each agent was heard.")
        say(f"Doubled: nothing. Each of the {steps} steps was committed once, in order.")
        say("Running git bisect in a separate clone ...")
        expected = stage.git_bisect()
    say(f"  perdure: {commit}\n  git:      {expected}")
    is_same = commit == expected
    if as_json:
        output.document(
            {
                "run": run.to_dict(),
                "tree": [each.to_dict() for each in tree],
                "said": SAID,
                "agents_hit": lost,
                "killed_step": stage.killed_step,
                "recovered_seconds": stage.recovered,
                "perdure": commit,
                "git": expected,
                "same": is_same,
            }
        )
    if not is_same:
        raise Failed(f"perdure found commit {commit}, git found {expected}", INTERNAL)
    say(f"same commit ({time.monotonic() - began:.0f} s in all)")
    say(
        "\nNext, in two terminals:  perdure up\n"
        '  perdure submit countdown "try it" --input rounds=20 --input seconds=1 --watch'
    )


def _show(tree: Sequence[Run]) -> None:
    rows = [
        (f"{'  ' if place else ''}{run.id}", run.status_text, plain(run.flow), plain(run.title))
        for place, run in enumerate(tree)
    ]
    output.table(("run", "status", "flow", "goal"), rows, "goal", "no runs")


def _check_commit(stage: DemoStage, run: Run) -> str:
    """Return the git commit that the demo's bisecting run found.

    Args:
        stage: The demo's processes.
        run: The bisecting run, after its end.

    Raises:
        Failed: The run found no commit. Or the worker was not killed during a round, or no other
            worker claimed that round.
    """
    if (
        run.status.value != "completed"
        or not isinstance(run.answer, dict)
        or "commit" not in run.answer
    ):
        raise Failed(
            f"expected run {run.id} to complete with a commit; "
            f"it is {run.status.value}: {run.error or run.answer}",
            INTERNAL,
        )
    if stage.killed_step is None or not stage.lost or stage.recovered is None:
        raise Failed(
            "the run ended before the worker could be killed during a round; "
            "run `perdure demo` again",
            INTERNAL,
        )
    return str(run.answer["commit"])


def _check_tree(stage: DemoStage, tree: Sequence[Run]) -> tuple[int, int]:
    """Check the demo's runs after their end.

    Args:
        stage: The demo's processes.
        tree: The root run and its agents.

    Returns:
        The number of steps that all these runs committed, and the number of agents that had a round
        in flight when their worker was killed.

    Raises:
        Failed: Not all runs completed, an agent was started twice or did not receive its message,
            or a step was not committed exactly once.
    """
    root, *agents = tree
    for run in tree:
        if run.status.value != "completed":
            raise Failed(
                f"expected run {run.id} to complete; it is {run.status.value}: {run.error}",
                INTERNAL,
            )
    if len(agents) != len(stage.agents):
        raise Failed(f"expected {len(stage.agents)} agents; there are {len(agents)}", INTERNAL)
    if SAID not in agents[-1].answer or root.answer["lots"] != [run.answer for run in agents[1:]]:
        raise Failed(f'expected "{SAID}" and the answers of the agents in {root.answer}', INTERNAL)
    events = [list(stage.client.events(run.id, follow=False)) for run in tree]
    for run, its_events in zip(tree, events, strict=True):
        _check_log(run, its_events)
    lost = sum(any(event.type == "lost" for event in its_events) for its_events in events[1:])
    return sum(run.state.step for run in tree), lost


def _check_log(run: Run, events: Sequence[Event]) -> None:
    steps = [event.step for event in events if event.type == "committed"]
    if steps != list(range(run.state.step)):
        raise Failed(
            f"expected each step of run {run.id} to be committed once, in order; "
            f"its events have {steps}",
            INTERNAL,
        )


class QuietStream(PipeView):
    """A view that prints nothing, for ``--json``."""

    def show(self, *_: Any) -> None: ...
    def note(self, text: str) -> None: ...
    def ask_below(self, waiting: PendingInterrupt) -> None: ...
    def away(self, since: float) -> None: ...
    def end(self, run: Run) -> None: ...
    def close(self) -> None: ...
