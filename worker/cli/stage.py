"""Stage: a server, a repository with a fault, and a worker that is killed with a round in its hands; all gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from worker.cli.child import Child
from worker.words.texts import plain

if TYPE_CHECKING:
    from flows.library.git.demo_repository import DemoRepository
    from worker.cli.follow import View
    from worker.client import Client
    from worker.event import Event
    from worker.run import Run

#: The worker is killed in the first execution from this step on: by then there is something to lose.
KILL_FROM_STEP = 5
#: Seconds that each test takes, so that there is a round in flight to hit.
TEST_SECONDS = 0.4
GOAL = "which commit broke the till?"


class Stage:
    """Where a bisection is played with its worker killed on the way.

    Attributes:
        repository: what is bisected.
        client: of the server of its own.
        killed_step: the step whose round was in flight when the worker was killed; None as long as none was hit.
        lost: whether the engine noticed that loss.
        recovered: seconds from the kill until another worker had claimed the same step; None until then.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
        self.killed_step: int | None = None
        self.lost = False
        self.recovered: float | None = None
        self._killed_at = 0.0
        self._child: Child | None = None
        # A demonstration shows what everybody gets, whatever is set here.
        for name in [name for name in os.environ if name.startswith("HOLDFAST_") and name != "HOLDFAST_DEBUG"]:
            del os.environ[name]

    def __enter__(self) -> Self:
        from flows.library.git.demo_repository import make_demo_repository
        from worker.client import Client
        from worker.embedded import EmbeddedServer
        from worker.settings import Settings

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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def test(self) -> str:
        """The test command of the bisection."""
        return f"sleep {TEST_SECONDS}; {self.repository.test}"

    def start_worker(self) -> None:
        """A worker process; what it leaves behind when it is killed lies in the stage's directory."""
        arguments = ["--url", self._server.url, "--enable", "bisect", "--concurrency", "4"]
        self._child = Child(arguments, {"TMPDIR": str(self.directory)}, self.directory, quiet=True)

    def submit(self) -> Run:
        """Submit the bisection."""
        inputs = {"repo": str(self.repository.path), "good": self.repository.good, "bad": self.repository.bad, "test": self.test}
        return self.client.submit("bisect", GOAL, inputs)

    def tick(self, view: View, run: Run, events: Sequence[Event]) -> None:
        """Look whether it is time to kill the worker, and whether the run has recovered; for ``follow``."""
        if self.killed_step is None:
            ripe = run.phase == "leased" and run.state.current_node == "Executor" and run.state.step >= KILL_FROM_STEP
            if ripe:
                self._kill(view, run)
        self._see_recovery(view, run, events)

    def _kill(self, view: View, run: Run) -> None:
        child = self._child
        assert child is not None
        # Half a test into the round, or less: then it is in flight for sure.
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
            view.note("SIGKILL hit the worker between two rounds; once more")
        self.start_worker()

    def _see_recovery(self, view: View, run: Run, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "lost" and event.step == self.killed_step:
                self.lost = True
            if event.type == "committed" and event.step == self.killed_step and self.lost and self.recovered is None:
                self._recovered(view, event.at.timestamp() - int(event.data.get("took", 0)) / 1000)
        if self.lost and self.recovered is None and run.phase == "leased" and run.state.step == self.killed_step:
            self._recovered(view, datetime.fromisoformat(run.details["claimed_at"]).timestamp())

    def _recovered(self, view: View, at: float) -> None:
        self.recovered = at - self._killed_at
        view.note(f"another worker has it, {self.recovered:.1f} s after the kill")

    def git_bisect(self) -> str:
        """The first bad commit as ``git bisect run`` finds it, in a clone."""
        from flows.library.git.environment import clean_environment

        clone = self.directory / "clone"
        repository = self.repository

        def git(*arguments: str, within: Path | None = clone) -> str:
            environment = clean_environment(LC_ALL="C")
            done = subprocess.run(
                ["git", *arguments], cwd=within, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"git {' '.join(arguments)} failed: {plain(done.stderr or done.stdout)}")
            return done.stdout.strip()

        git("clone", "--quiet", str(repository.path), str(clone), within=None)
        git("bisect", "start", repository.bad, repository.good)
        git("bisect", "run", "sh", "-c", self.test)
        return git("rev-parse", "refs/bisect/bad")

    def close(self) -> None:
        """End the worker and the server, and remove everything."""
        try:
            if self._child is not None:
                self._child.kill()
            if hasattr(self, "client"):
                self.client.close()
            self._server.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
