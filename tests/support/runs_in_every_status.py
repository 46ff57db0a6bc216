"""Runs in every status, with everything that a run can have, made in this process."""

from __future__ import annotations

from contextlib import closing

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunStatus,
    command,
    register,
)
from perdure.worker.app import engine_of, make_app
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.settings import Settings

#: The modules that ``flow_modules`` needs for it.
MODULES = ("tests.support.runs_in_every_status", "tests.support.example_flows.rings")


@register("wordy")
class Wordy(ControllerExecutorFlow):
    """Has a long result, kept as an artifact."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish("told") if len(context.history) else Command("tell")

    @command(idempotent=True)
    def tell(self) -> str:
        """Tell it all."""
        return "the till is wröng\n" * 2_000


@register("wary")
class Careful(ControllerExecutorFlow):
    """Wants a person's word before it does anything."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return (
            Finish(context.observation)
            if len(context.history)
            else Command("remove", {"path": "build"})
        )

    @command(idempotent=True, approval="always")
    def remove(self, path: str) -> str:
        """Remove a directory."""
        return f"removed {path}"


def every_status(settings: Settings) -> dict[str, str]:
    """Make the runs; return their ids by status, and by their other features: ``approval``,
    ``artifact``.
    """
    with closing(Client(settings=settings)) as client:
        found = {
            "queued": client.submit("countdown", "wait", labels={"team": "search"}).id,
            "running": client.submit(
                "countdown", "go on", {"rounds": 5}, budgets={"cycles": 50}, thread_id="t"
            ).id,
            "interrupted": client.submit("question", "which?").id,
            "stopped": client.submit("countdown", "stop", {"rounds": 5}).id,
            "completed": client.submit("countdown", "count down", {"rounds": 1}).id,
            "errored": client.submit("trouble", "fail", {"kind": "fatal"}).id,
            "approval": client.submit("wary", "tidy up").id,
            "artifact": client.submit("wordy", "tell").id,
        }
        with closing(engine_of(make_app(settings))) as engine:
            for name, run_id in found.items():
                if name != "queued":
                    _play(
                        engine, client, run_id, rounds=2 if name in ("running", "stopped") else 10
                    )
        client.request_stop(found["stopped"], mode="now", reason="enough", requested_by="ann")
        for name, run_id in found.items():
            if name in {status.value for status in RunStatus}:
                assert client.get(run_id).status.value == name
    return found


def play(settings: Settings, run_id: str, rounds: int = 10) -> None:
    """Play this number of rounds of a run, or as many as it has."""
    with (
        closing(engine_of(make_app(settings))) as engine,
        closing(Client(settings=settings)) as client,
    ):
        _play(engine, client, run_id, rounds)


def _play(engine: Runtime, client: Client, run_id: str, rounds: int) -> None:
    for _ in range(rounds):
        run = client.get(run_id)
        if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
            break
        engine.rounds.run(run_id, run.details["epoch"], run.state.step)
    engine.write_stats()  # or the heartbeat does, when the test is over
