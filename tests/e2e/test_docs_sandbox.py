"""The sandbox class in docs/guides/sandbox.md runs a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import Sandbox, SandboxCommand, ThisMachine
from tests.support.sandbox_guide import names_of, registry_of_its_own

__all__ = ["registry_of_its_own"]


def test_the_sandbox_of_your_own_is_one(tmp_path: Path, monkeypatch: Any) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "on $1"\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sandbox: Sandbox = names_of(1)["OverSsh"]("host")
    ending = sandbox.run(SandboxCommand(["echo", "a  b"], tmp_path, "n"))
    assert (ending.exit, ending.tail) == (0, "on host\na  b\n") and sandbox.missing is None
    sandbox.kill("n")
    assert ThisMachine().missing is None
