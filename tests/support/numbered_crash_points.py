"""Processes that play a run and end themselves with SIGKILL at its Nth point.

Points are before and after each write of a round to the server (claim, intent, recorded result,
commit), and before and after each effect. The helper process (``python -m
tests.support.numbered_crash_points``) reads lines ``RUN N``. For each it forks a process that plays
this run until no message is queued, or until its Nth point. The file of the environment variable
LEDGER has a line for each effect and each point, also of processes that were killed.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from perdure import Client, Run, RunStatus, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.ids import process_name
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.store import Claim, ClaimRefused, CommitReply, Store
from perdure.worker.store.rounds import RoundTransitions
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.waits import WORK
from tests.support.workflow_effects import let_time_pass

LEDGER = "LEDGER"
#: How a line of a point begins. Every other line is an effect.
POINT = "point: "
#: The point at which this process dies, and the number of passed points.
_deadly, _passed = 0, 0
#: Steps of one round are carried out by several threads.
_lock = threading.Lock()


def _write(line: str) -> None:
    """Append a line, which a killed process cannot take back."""
    file = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def pass_point(name: str) -> None:
    """Count a point, or die there."""
    global _passed  # noqa: PLW0603 -- of this process
    with _lock:
        _passed += 1
        _write(f"{POINT}{name}")
        if _passed == _deadly:
            os.kill(os.getpid(), signal.SIGKILL)


def happens(name: str) -> str:
    """Do something outside that no process can take back."""
    pass_point(f"before {name}")
    with _lock:
        _write(name)
    pass_point(f"after {name}")
    return f"{name} is done"


def lines() -> list[str]:
    """Return the lines of the ledger."""
    path = Path(os.environ[LEDGER])
    return path.read_text().splitlines() if path.exists() else []


class HappeningCounter(Counter[str]):
    """Stands for ``tests.support.workflow_effects.DONE``: a counted effect happens."""

    def __setitem__(self, name: str, count: int) -> None:
        happens(name)
        super().__setitem__(name, count)


class CountedRounds(RoundTransitions):
    """Transitions of rounds whose writes are points."""

    def claim(self, *args: Any, **named: Any) -> Claim | ClaimRefused:
        pass_point("before claim")
        claim = super().claim(*args, **named)
        pass_point("after claim")
        return claim

    def intend(self, run_id: str, **named: Any) -> str:
        pass_point("before intend")
        word = super().intend(run_id, **named)
        pass_point("after intend")
        return word

    def record_result(self, run_id: str, **named: Any) -> tuple[str, str]:
        pass_point(f"before record {named['name']}")
        reply = super().record_result(run_id, **named)
        pass_point(f"after record {named['name']}")
        return reply

    def commit_and_fetch(self, run_id: str, **named: Any) -> CommitReply:
        pass_point("before commit")
        reply = super().commit_and_fetch(run_id, **named)
        pass_point("after commit")
        return reply


class CountedStore(Store):
    """A store whose writes of rounds are points."""

    @cached_property
    def rounds(self) -> CountedRounds:
        return CountedRounds(self, self.reads)


def play(engine: Runtime, run_id: str) -> None:
    """Play the run as long as it is queued."""
    while True:
        fields = engine.store.reads.fields(run_id) or {}
        if fields.get("phase") != "queued":
            return
        engine.rounds.run(run_id, int(fields["epoch"]), int(fields["step"]))


class MortalPlayer:
    """The process that forks the players.

    Args:
        ledger: the file of effects and points.
        modules: flows to register.
    """

    def __init__(self, settings: Settings, ledger: Path, modules: str, **environment: str) -> None:
        self.ledger = ledger
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.numbered_crash_points"],
            env={
                **os.environ,
                "PERDURE_REDIS_URL": str(settings.redis_url),
                "PERDURE_PREFIX": settings.prefix,
                "PERDURE_FLOW_MODULES": modules,
                LEDGER: str(ledger),
                **environment,
            },
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, run_id: str, point: int = 0) -> str | None:
        """Play the run in a new process. Return its name if it was killed, else None."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{run_id} {point}\n")
        self._process.stdin.flush()
        pid, status = map(int, self._process.stdout.readline().split())
        assert status in (0, signal.SIGKILL), f"the playing process ended with {status}"
        return process_name(pid) if status == signal.SIGKILL else None

    def lines(self) -> list[str]:
        """Return the lines of the ledger."""
        return self.ledger.read_text().splitlines()

    def points(self) -> list[str]:
        """Return the points that processes have passed."""
        return [each.removeprefix(POINT) for each in self.lines() if each.startswith(POINT)]

    def effects(self) -> Counter[str]:
        """Count the effects that have happened."""
        return Counter(each for each in self.lines() if not each.startswith(POINT))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@dataclass
class Tale:
    """How a run went.

    Attributes:
        at: the point at which its process died, or None.
        stored: names of the steps that were committed or recorded when it died.
        happened: its effects when it died.
        begun: its begun effects when it died.
        open: how many of the effects were neither recorded nor committed when it died.
        asked: the commands about which a person was asked whether they have happened.
    """

    run: Run
    effects: Counter[str]
    points: int
    at: str | None = None
    stored: frozenset[str] = frozenset()
    happened: Counter[str] = field(default_factory=Counter)
    begun: frozenset[str] = frozenset()
    open: int = 0
    asked: list[str] = field(default_factory=list)


def tale_of(
    client: Client,
    driver: Driver,
    player: MortalPlayer,
    flow: str,
    inputs: Mapping[str, Any] | None = None,
    point: int = 0,
    knows: Callable[[Any], tuple[str, Any]] | None = None,
) -> Tale:
    """Play a run whose process is killed at a point. Further processes play it to its end.

    A person approves everything, answers ``yes``, and looks into the ledger if asked whether a
    command has happened.

    Args:
        knows: the effect of a command in doubt, and its result if it has happened.
    """
    player.ledger.write_text("")
    run = client.submit(flow, "go", inputs or {})
    tale = Tale(run, Counter(), 0)

    def rests() -> bool:
        found = client.get(run.id)
        if found.phase == "queued":
            left = 0 if point == 0 or tale.at else point - len(player.points())
            died = player.play(run.id, max(left, 0))
            if died is not None:
                _bury(driver, player, tale, died)
        else:
            let_time_pass(driver)
        for question in client.inbox().waiting:
            answer: Any = "approve" if question.kind == "approval" else "yes"
            if question.kind == "in_doubt":
                assert knows is not None, f"asked about {question.command}, killed at {tale.at}"
                tale.asked.append(str(question.command))
                effect, result = knows(question)
                answer = {"result": result} if player.effects()[effect] else "retry"
            client.resume(run.id, answer, interrupt=question.id)
        return client.get(run.id).status.ended

    until(rests, "the end of the run", WORK)
    tale.run, tale.effects, tale.points = client.get(run.id), player.effects(), len(player.points())
    assert tale.run.status is RunStatus.COMPLETED, (tale.at, tale.run.error)
    return tale


def _bury(driver: Driver, player: MortalPlayer, tale: Tale, process: str) -> None:
    """Tell the server that the process is dead, as the parent process of a pool does."""
    store, run_id = driver.engine.store, tale.run.id
    points = player.points()
    tale.at, tale.happened = points[-1], player.effects()
    tale.open = _open(player.lines())
    tale.begun = frozenset(each[7:] for each in points if each.startswith("before "))
    fields = store.reads.fields(run_id) or {}
    history = driver.client.transcript(run_id)["history"]
    recorded = {name[2:] for name in fields if name.startswith("o:")}
    tale.stored = frozenset({turn["command"]["name"] for turn in history if turn.get("command")})
    tale.stored |= recorded
    if fields["phase"] == "leased":
        epoch, step = int(fields["epoch"]), int(fields["step"])
        assert store.rounds.release_dead_lease(run_id, epoch=epoch, step=step, process=process) == [
            "ok"
        ]
        driver.sweeper.sweep()


def _open(lines: list[str]) -> int:
    """Count the last effects without a trace on the server."""
    left = 0
    for line in lines:
        point = line.removeprefix(POINT)
        if point == line:
            left += 1
        elif point == "after commit":
            left = 0
        elif point.startswith("after record"):
            left = max(0, left - 1)
    return left


def main() -> None:
    """Read standard input, and fork for each line."""
    global _deadly  # noqa: PLW0603 -- of the forked process
    from perdure.flows.rounds.registry import load_modules
    from tests.support import workflow_effects

    settings = Settings()
    load_modules(settings.flow_modules)
    engine = engine_of(make_app(settings))
    engine.store = CountedStore(str(settings.redis_url), settings.prefix)
    _ = engine.rounds, engine.flows  # made once. It connects after the fork.
    workflow_effects.DONE = HappeningCounter()
    gc.freeze()
    for line in sys.stdin:
        run_id, point = line.split()
        pid = os.fork()
        if pid == 0:
            _deadly = int(point)
            play(engine, run_id)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(pid, status, flush=True)


if __name__ == "__main__":
    from tests.support.numbered_crash_points import main as its_main

    its_main()  # of the module that flows import, not of ``__main__``
