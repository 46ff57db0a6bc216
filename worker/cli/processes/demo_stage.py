"""The state server, git repository and worker of ``perdure demo``.

`DemoStage` makes them, kills the worker during a round, sends a message to an agent before it
starts another worker, and removes everything at the end.
"""

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

from perdure.worker.cli.processes.child import ChildProcess
from perdure.worker.presentation.text import plain

if TYPE_CHECKING:
    from perdure.flows.library.git.demo_repository import DemoRepository
    from perdure.worker.cli.views.follow import View
    from perdure.worker.client import Client
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.signal import SignalReceipt

#: The worker is killed in the first Executor round from this step on: then there is work to lose.
KILL_FROM_STEP = 5
#: Seconds that each test sleeps, so that the kill hits a round in flight.
TEST_SECONDS = 0.4
GOAL = "review the till"
#: The message to an agent while no worker lives.
SAID = "honey"
#: Seconds until the root has started its agents.
START_SECONDS = 20.0
#: The module with the flows of the demo's root and of two of its agents.
TEAM = "perdure.flows.library.git.demo_team"


class DemoStage:
    """State server, git repository and worker for the demo: a run with three agents.

    Use it in a ``with`` block, which starts and removes them.

    Attributes:
        root: The id of the root run, which starts the agents. Empty before it is submitted.
        agents: The ids of the agents (child runs). The first bisects, the others count.
        said: The receipt of the message to the last agent. None before the message is sent.
        repository: The git repository that the first agent bisects.
        client: A client of the stage's own state server.
        killed_step: The step of the first agent whose round was in flight when the worker was
            killed. None until a kill has hit a round.
        recovered: Seconds from the kill until another worker claimed this step. None before that.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
        self.root = ""
        self.agents: list[str] = []
        self.said: SignalReceipt | None = None
        self.killed_step: int | None = None
        self._lost_at: float | None = None
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
            self.client: Client = Client(
                settings=Settings(redis_url=self._server.url, flow_modules=(TEAM,))
            )
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
    def lost(self) -> bool:
        """Whether the killed step has an event ``lost``: Perdure noticed the worker's death."""
        return self._lost_at is not None

    @property
    def test(self) -> str:
        """The shell command with which the bisecting agent tests a commit."""
        return f"sleep {TEST_SECONDS}; {self.repository.test}"

    def start_worker(self) -> None:
        """Start a worker for the demo's runs.

        The worker's temporary files are in the demo's directory. ``close`` removes this directory,
        so the files are removed even if the worker is killed.
        """
        arguments = ["--url", self._server.url, "--enable", "bisect", "--concurrency", "4"]
        self._child = ChildProcess(
            arguments,
            {"TMPDIR": str(self.directory), "PERDURE_FLOW_MODULES": TEAM},
            self.directory,
            quiet=True,
        )

    def submit(self) -> Run:
        """Submit the root run. Return the bisecting agent's run once all agents have started.

        Raises:
            TimeoutError: The root run has not started its agents within START_SECONDS.
        """
        inputs = {
            "repo": str(self.repository.path),
            "good": self.repository.good,
            "bad": self.repository.bad,
            "test": self.test,
        }
        self.root = self.client.submit("demo_review", GOAL, inputs).id
        until = time.monotonic() + START_SECONDS
        while len(agents := list(self.client.children(self.root))) < 3:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"run {self.root} has {len(agents)} of 3 agents after {START_SECONDS:g} s"
                )
            time.sleep(0.02)
        self.agents = [agent.id for agent in agents]
        return self.client.get(self.agents[0])

    def tick(self, view: View, run: Run, events: Sequence[Event]) -> None:
        """Kill the worker once during a round. Record when another worker claims the step.

        ``follow`` calls this after each poll of the bisecting agent's run.

        Args:
            view: The view on which to show notes.
            run: The run of the bisecting agent.
            events: Its new events.
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
            self.said = self.client.say(self.agents[-1], SAID)
            view.note(f'said "{SAID}" to the third agent; no worker lives')
        else:
            view.note("SIGKILL hit the worker between two rounds; trying again")
        self.start_worker()

    def _see_recovery(self, view: View, run: Run, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "lost" and event.step == self.killed_step:
                self._lost_at = event.at.timestamp()
            if event.type == "committed" and event.step == self.killed_step:
                self._claimed(view, event.at.timestamp() - int(event.data.get("took", 0)) / 1000)
        if run.phase == "leased" and run.state.step == self.killed_step:
            self._claimed(view, datetime.fromisoformat(run.details["claimed_at"]).timestamp())

    def _claimed(self, view: View, at: float) -> None:
        """Record the first claim of the killed step by another worker.

        A claim before the event ``lost`` is that of the killed worker, and is ignored. ``at`` is
        the time of the claim in seconds since 1970.
        """
        if self.recovered is None and self._lost_at is not None and at >= self._lost_at:
            self._recovered(view, at)

    def _recovered(self, view: View, at: float) -> None:
        self.recovered = at - self._killed_at
        view.note(f"another worker claimed the step {self.recovered:.1f} s after the kill")

    def git_bisect(self) -> str:
        """Return the first bad commit that ``git bisect run`` finds.

        It is compared with the agent's commit. Git works in a clone of the demo's repository.

        Raises:
            RuntimeError: A git command failed.
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
        """Kill the worker, stop the state server, and remove the demo's directory."""
        try:
            if self._child is not None:
                self._child.kill()
            if hasattr(self, "client"):
                self.client.close()
            self._server.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
