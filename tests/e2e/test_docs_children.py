"""docs/guides/children.md: its test passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from perdure import Settings
from tests.support.children_guide import ROOT, settings

__all__ = ["settings"]


def test_the_test_of_the_node_passes(tmp_path: Path, settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_imports.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
