"""A damaged run on the command line: why it is quarantined, and its removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.worker.store.keys import Keys
from tests.support.command_line import CommandLine
from tests.support.damaged_runs import kept, keys, overwritten

__all__ = ["keys"]


@pytest.mark.slow
def test_the_command_line_shows_why_and_removes(
    client: Client, keys: Keys, settings: Settings, tmp_path: Path
) -> None:
    perdure = CommandLine(tmp_path, settings)
    client.submit("countdown", "x", run_id="hurt")
    overwritten("run")(client._store.redis, keys)
    for command in ("show", "stop", "resume", "watch"):
        done = perdure(command, "hurt")
        assert done.code == 1 and "internal error" not in done.err, (command, done)
    why = perdure("why", "hurt", "--json")
    assert why.code == 0 and why.json["code"] == "quarantined"
    assert "hurt" in perdure("list").err
    assert perdure("delete", "hurt").code == 0
    assert kept(client, keys) == []
