"""A long result: its beginning is in the history, the whole is kept, read back by people, by
programs and by the controller.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import (
    ArtifactNotFound,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunNotFound,
    command,
    register,
)
from perdure.flows.executors.files import read_artifact
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.round_driver import driving

LINE = "the till is wrong\n"


@register("verbose")
class Verbose(ControllerExecutorFlow):
    """Prints a long report, and reads its end."""

    commands = (read_artifact,)

    def decide(self, context: RoundContext) -> Command | Finish:
        match len(context.history):
            case 0:
                return Command("report", {"lines": 5_000})
            case 1:
                return Command(
                    "read_artifact",
                    {"name": context.observation["artifact"], "offset": 5_000 * len(LINE) - 10},
                )
            case _:
                return Finish(context.observation["text"])

    @command(idempotent=True)
    def report(self, lines: int) -> str:
        """Report."""
        return LINE * lines


def test_a_long_result_is_cut_in_the_history_and_kept_whole(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    perdure = CommandLine(tmp_path, settings)
    run = client.submit("verbose", "report")
    with driving(settings) as driver:
        assert driver.play_to_rest(run.id).answer == (LINE * 2)[-10:]
    [first, _] = client.transcript(run.id)["history"]
    assert (
        first["observation"]["artifact"] == "1-report"
        and "cut after 32000 of 90000 characters" in first["observation"]["note"]
    )
    assert client.artifacts(run.id) == {"1-report": 90_000}
    assert client.artifact(run.id, "1-report") == LINE * 5_000
    assert perdure("show", run.id, "--artifact", "1-report").out == LINE * 5_000 + "\n"
    refused = perdure("show", run.id, "--artifact", "2-report")
    assert (refused.code, "it has 1-report" in refused.err) == (3, True)
    with pytest.raises(ArtifactNotFound, match="it has 1-report"):
        client.artifact(run.id, "nothing")
    with pytest.raises(RunNotFound):
        client.artifacts("nobody")
    client.delete(run.id)
