"""The doctor tries the sandbox of enabled flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.worker.doctor.app_checks import sandbox
from perdure.worker.domain.verdict import Level
from perdure.worker.settings import Settings


def test_a_sandbox_that_cannot_be_started_here_is_refused_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    boxed = {"sandbox": "podman:img", "enabled_flows": ("react_shell",)}
    finding = sandbox(Settings(**boxed))  # type: ignore[arg-type]
    assert (finding.check, finding.level) == ("sandbox", Level.REFUSED)
    assert "podman:img" in finding.sentence and "podman is not installed here" in finding.sentence
    assert sandbox(Settings(sandbox="podman:img")).level is Level.OK
    assert sandbox(Settings(enabled_flows=("react_shell",))).level is Level.OK
    program = tmp_path / "podman"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    assert sandbox(Settings(**boxed)).level is Level.OK  # type: ignore[arg-type]
