"""The command ``demo``: a real bisection whose worker is killed, checked against git.

`DemoStage` sets up a server, a git repository with a fault, and a worker. It kills the worker
during a round and removes everything afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import INTERNAL, USAGE, Failed
from perdure.worker.cli.options import json_option
from perdure.worker.cli.processes.child import ChildProcess, leave_on_signals
from perdure.worker.presentation.text import plain

if TYPE_CHECKING:
    from perdure.flows.library.git.demo_repository import DemoRepository
    from perdure.worker.cli.views.follow import View
    from perdure.worker.client import Client
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.run import Run

#: Kill the worker in the first Executor round from this step on: by then there is work to lose.
KILL_FROM_STEP = 5
#: Seconds that each test sleeps, so that the kill hits a round in flight.
TEST_SECONDS = 0.4
GOAL = "which commit broke the till?"


class DemoStage:
    """A server, a repository and a worker for a bisection whose worker is killed.

    Attributes:
        repository: The git repository that is bisected.
        client: A client of the stage's own server.
        killed_step: The step whose round was in flight when the worker was killed. None until a
            kill has hit a round.
        lost: Whether a ``lost`` event says that Perdure noticed the lost worker.
        recovered: Seconds from the kill until another worker claimed the step. None until then.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
        self.killed_step: int | None = None
        self.lost = False
        self.recovered: float | None = None
        self._killed_at = 0.0
        self._child: ChildProcess | None = None
        # The demo shows Perdure's defaults, so the settings of this environment do not apply.
        for name in [
            name for name in os.environ if name.startswith("PERDURE_") and name != "PERDURE_DEBUG"
        ]:
            del os.environ[name]

    def __enter__(self) -> Self:
        from perdure.flows.library.git.demo_repository import make_demo_repository
        from perdure.worker.client import Client
        from perdure.worker.embedded import EmbeddedServer
        from perdure.worker.settings import Settings

        self._server = EmbeddedServer(self.directory / "server")
        try:
            self._server.start()
            self.repository: DemoRepository = make_demo_repository(self.directory / "till")
            self.client: Client = Client(settings=Settings(redis_url=self._server.url))
            self.start_worker()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def test(self) -> str:
        """The shell command with which the demo's bisection tests a commit."""
        return f"sleep {TEST_SECONDS}; {self.repository.test}"

    def start_worker(self) -> None:
        """Start a worker for the demo's run.

        Its temporary files are in the demo's directory, which is removed even if the worker is
        killed.
        """
        arguments = ["--url", self._server.url, "--enable", "bisect", "--concurrency", "4"]
        self._child = ChildProcess(
            arguments, {"TMPDIR": str(self.directory)}, self.directory, quiet=True
        )

    def submit(self) -> Run:
        """Submit the run that bisects the demo's git repository, and return the run."""
        inputs = {
            "repo": str(self.repository.path),
            "good": self.repository.good,
            "bad": self.repository.bad,
            "test": self.test,
        }
        return self.client.submit("bisect", GOAL, inputs)

    def tick(self, view: View, run: Run, events: Sequence[Event]) -> None:
        """Kill the demo's worker while a round is in flight, and record when another takes over.

        ``follow`` calls this after each poll of the run.
        """
        if self.killed_step is None:
            is_in_flight = (
                run.phase == "leased"
                and run.state.current_node == "Executor"
                and run.state.step >= KILL_FROM_STEP
            )
            if is_in_flight:
                self._kill(view, run)
        self._see_recovery(view, run, events)

    def _kill(self, view: View, run: Run) -> None:
        child = self._child
        assert child is not None
        # Early in the test, the round cannot end before the signal arrives.
        claimed = datetime.fromisoformat(run.details["claimed_at"])
        if (datetime.now(UTC) - claimed).total_seconds() > TEST_SECONDS * 0.6:
            return
        child.kill()
        self._killed_at = time.time()
        left = self.client.get(run.id)
        step, owner = left.state.step, left.details.get("owner")
        if left.phase == "leased" and str(owner).endswith(f":{child.pid}"):
            self.killed_step = step
            view.note(f"SIGKILL hit worker {owner} in the middle of step {step}")
        else:
            view.note("SIGKILL hit the worker between two rounds; trying again")
        self.start_worker()

    def _see_recovery(self, view: View, run: Run, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "lost" and event.step == self.killed_step:
                self.lost = True
            if (
                event.type == "committed"
                and event.step == self.killed_step
                and self.lost
                and self.recovered is None
            ):
                self._recovered(view, event.at.timestamp() - int(event.data.get("took", 0)) / 1000)
        if (
            self.lost
            and self.recovered is None
            and run.phase == "leased"
            and run.state.step == self.killed_step
        ):
            self._recovered(view, datetime.fromisoformat(run.details["claimed_at"]).timestamp())

    def _recovered(self, view: View, at: float) -> None:
        self.recovered = at - self._killed_at
        view.note(f"another worker claimed the step {self.recovered:.1f} s after the kill")

    def git_bisect(self) -> str:
        """Return the first bad commit of the demo's repository, as ``git bisect run`` finds it.

        Git works in a clone.
        """
        from perdure.flows.library.git.environment import clean_environment

        clone = self.directory / "clone"
        repository = self.repository

        def git(*arguments: str, within: Path | None = clone) -> str:
            environment = clean_environment(LC_ALL="C")
            done = subprocess.run(
                ["git", *arguments],
                cwd=within,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(
                    f"git {' '.join(arguments)} failed: {plain(done.stderr or done.stdout)}"
                )
            return done.stdout.strip()

        git("clone", "--quiet", str(repository.path), str(clone), within=None)
        git("bisect", "start", repository.bad, repository.good)
        git("bisect", "run", "sh", "-c", self.test)
        return git("rev-parse", "refs/bisect/bad")

    def close(self) -> None:
        """Kill the demo's worker, stop its server, and remove its directory."""
        try:
            if self._child is not None:
                self._child.kill()
            if hasattr(self, "client"):
                self.client.close()
            self._server.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


if TYPE_CHECKING:
    from perdure.worker.domain.run import Run


@click.command("demo")
@json_option
def demo_command(as_json: bool) -> None:
    """Bisect a git repository while the worker is killed with SIGKILL during a round.

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
        say(f'submitted to the flow bisect: "{GOAL}"\n')
        view = QuietStream() if as_json else view_for(False)
        try:
            run = follow(stage.client, run.id, view, partial(stage.tick, view))
        finally:
            view.close()
        commit = _check_commit(stage, run)
        say("")
        say(
            f"Step {stage.killed_step} lost its worker. "
            f"Another worker claimed it {stage.recovered:.1f} s after the kill."
        )
        say(f"Each of the {run.state.step} steps was committed once, in order.")
        say("Running git bisect in a separate clone ...")
        expected = stage.git_bisect()
    say(f"  perdure: {commit}\n  git:      {expected}")
    is_same = commit == expected
    if as_json:
        output.document(
            {
                "run": run.to_dict(),
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


def _check_commit(stage: DemoStage, run: Run) -> str:
    """Return the bad commit that the demo's run found.

    Raises:
        Failed: The run found no commit, or the worker was not killed during a round, or a step was
            not committed exactly once.
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
    _check_log(stage, run)
    return str(run.answer["commit"])


def _check_log(stage: DemoStage, run: Run) -> None:
    steps = [
        event.step
        for event in stage.client.events(run.id, follow=False)
        if event.type == "committed"
    ]
    if steps != list(range(run.state.step)):
        raise Failed(
            f"expected each step to be committed once, in order; the run's events have {steps}",
            INTERNAL,
        )


class QuietStream:
    """A `View` that prints nothing."""

    def show(self, *_: Any) -> None: ...
    def note(self, text: str) -> None: ...
    def away(self, since: float) -> None: ...
    def end(self, run: Run) -> None: ...
    def close(self) -> None: ...
