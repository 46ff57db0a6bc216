"""Processes that play a run and end themselves with SIGKILL at a named point of a command.

The points lie between the intent of a command and its commit. The helper process (``python -m
tests.support.named_crash_points``) reads lines ``RUN POINT``. For each it forks a process that
plays this run until no message is queued, or until the point, and replies ``PID STATUS``.

The commands of the flow ``mortal`` charge in a ledger, an SQLite file. The ledger ignores
idempotency keys, except those of ``charge_retry``.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from perdure import (
    NOT_DONE,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    command,
    register,
)
from perdure.worker.app import engine_of, make_app
from perdure.worker.ids import process_name
from perdure.worker.messaging.callbacks import Callbacks
from perdure.worker.settings import Settings
from perdure.worker.store import CommitReply, Store
from perdure.worker.store.rounds import RoundTransitions

#: Where a process dies: after the intent was written; in the command, before and after the effect;
#: before and after the commit.
POINTS = ("intended", "begun", "done", "committing", "committed")
POLICIES = ("tell", "ask", "retry", "reconcile")


def die_at(point: str) -> None:
    """End this process here, if this is the point."""
    if os.environ.get("MORTAL_POINT") == point:
        os.kill(os.getpid(), signal.SIGKILL)


class Ledger:
    """The outside world: the charges, and their keys."""

    def __init__(self, path: str) -> None:
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS charges (run TEXT, key TEXT, honoured INTEGER)"
        )

    def charge(self, run: str, key: str, honours: bool = False) -> str:
        """Charge; a receiver that honours keys charges once for each."""
        if not (
            honours and self._base.execute("SELECT 1 FROM charges WHERE key = ?", (key,)).fetchone()
        ):
            self._base.execute("INSERT INTO charges VALUES (?, ?, ?)", (run, key, honours))
        return "charged"

    def count(self, run: str) -> int:
        """Count the charges of the run."""
        return int(
            self._base.execute("SELECT count(*) FROM charges WHERE run = ?", (run,)).fetchone()[0]
        )


@register("mortal")
class Mortal(ControllerExecutorFlow):
    """Charges once, by the command of the policy that its inputs name; told of a doubt, it looks first."""

    class Inputs(BaseModel):
        ledger: str
        policy: str

    def decide(self, context: RoundContext) -> Command | Finish:
        seen = context.observation
        if seen is None or seen == "not there":
            return Command(f"charge_{context.inputs['policy']}")
        return Command("look") if isinstance(seen, dict) and "in_doubt" in seen else Finish(seen)

    @command(idempotent=True)
    def look(self, context: RoundContext) -> str:
        return "charged" if Ledger(context.inputs["ledger"]).count(context.run_id) else "not there"

    def _charge(self, context: RoundContext, honours: bool = False) -> str:
        die_at("begun")
        charged = Ledger(context.inputs["ledger"]).charge(
            context.run_id, context.idempotency_key, honours
        )
        die_at("done")
        return charged

    @command(in_doubt="tell_controller")
    def charge_tell(self, context: RoundContext) -> str:
        return self._charge(context)

    @command  # code asks a person by default
    def charge_ask(self, context: RoundContext) -> str:
        return self._charge(context)

    @command(in_doubt="retry")
    def charge_retry(self, context: RoundContext) -> str:
        return self._charge(context, honours=True)

    def find_out(self, context: RoundContext) -> Any:
        context.remember("found_out", True)
        return "charged" if Ledger(context.inputs["ledger"]).count(context.run_id) else NOT_DONE

    @command(in_doubt=find_out)
    def charge_reconcile(self, context: RoundContext) -> str:
        return self._charge(context)


class MortalRounds(RoundTransitions):
    """Dies around the transitions of the round that charges."""

    charging = False

    def intend(self, run_id: str, **named: Any) -> str:
        word = super().intend(run_id, **named)
        self.charging = True
        die_at("intended")
        return word

    def commit_and_fetch(self, run_id: str, **named: Any) -> CommitReply:
        if self.charging:
            die_at("committing")
        answer = super().commit_and_fetch(run_id, **named)
        if self.charging:
            die_at("committed")
        return answer


class MortalStore(Store):
    """A store whose process dies around the transitions of the round that charges."""

    @cached_property
    def rounds(self) -> MortalRounds:
        return MortalRounds(self, self.reads)


class MortalCalls(Callbacks):
    """Dies when a run has ended, before the call; or after the call, before it is recorded."""

    def make(self, run_id: str, epoch: int) -> None:
        die_at("ended")
        super().make(run_id, epoch)

    def _publish_call(self, fields: Mapping[str, str]) -> None:
        super()._publish_call(fields)
        die_at("called")


def play(run_id: str) -> None:
    """Play the run as long as it is queued."""
    settings = Settings()
    engine = engine_of(make_app(settings))
    engine.store = MortalStore(str(settings.redis_url), settings.prefix)
    engine.callbacks = MortalCalls(engine.app, engine.store, owns_app=True)
    while True:
        fields = engine.store.reads.fields(run_id) or {}
        if fields.get("phase") != "queued":
            return
        engine.rounds.run(run_id, int(fields["epoch"]), int(fields["step"]))


class Player:
    """The process that forks players; ``modules`` register more flows."""

    def __init__(self, settings: Settings, modules: str = "") -> None:
        environment = {
            **os.environ,
            "PERDURE_REDIS_URL": str(settings.redis_url),
            "PERDURE_PREFIX": settings.prefix,
        }
        environment |= {"PERDURE_FLOW_MODULES": modules} if modules else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.named_crash_points"],
            env=environment,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, run_id: str, point: str = "") -> tuple[str, bool]:
        """Play the run in a new process; returns its name and whether it was killed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{run_id} {point}\n")
        self._process.stdin.flush()
        pid, status = map(int, self._process.stdout.readline().split())
        assert status in (0, signal.SIGKILL), f"the playing process ended with {status}"
        return process_name(pid), status == signal.SIGKILL

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def main() -> None:
    """Read standard input, and fork for each line."""
    for line in sys.stdin:
        run_id, _, point = line.strip().partition(" ")
        pid = os.fork()
        if pid == 0:
            os.environ["MORTAL_POINT"] = point
            play(run_id)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(pid, status, flush=True)


if __name__ == "__main__":
    main()
