"""Files of a run on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure import Client, File
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine

PICTURE = File("a b.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 12_000)


@pytest.mark.slow
def test_the_command_line_submits_and_saves_files(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    perdure = CommandLine(tmp_path, settings)
    (tmp_path / "a.png").write_bytes(PICTURE.content)
    (tmp_path / "notes.txt").write_text("read me")
    made = perdure("submit", "countdown", "g", "--file", "a.png", "--file", "notes.txt")
    run_id = made.out.strip()
    assert "a.png (image/png, 3,072,008 bytes)" in perdure("show", run_id).out
    assert perdure("show", run_id, "--file", "notes.txt").out == "read me"
    saved = perdure("show", run_id, "--file", "a.png", "--output", "b.png")
    assert (saved.code, (tmp_path / "b.png").read_bytes()) == (0, PICTURE.content)
    told = json.loads(perdure("show", run_id, "--file", "notes.txt", "--json").out)
    assert told["media_type"] == "text/plain"
    missing = perdure("submit", "countdown", "g", "--file", "nothing.png")
    assert (missing.code, "'nothing.png' cannot be read" in missing.err) == (2, True)
    unknown = perdure("show", run_id, "--file", "b.png")
    assert (unknown.code, "it has a.png, notes.txt" in unknown.err) == (3, True)
