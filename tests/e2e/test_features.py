"""A feature is a folder: without it and the lines that name it, the rest is whole.

Each test deletes one feature in a copy of the code. It plays a selection of the other tests there:
those in PLAYED that neither import the feature nor have its name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.worker.features import NAMES
from tests.support.removed_feature import ROOT, copy_without, files_of_tests

#: Names and words of what a feature adds to the surface: commands, routes, settings.
WORDS = {
    "metric_history": "metric_history",
    "notes": r"notes?\b|note_|_notes",
    "notifications": "notif",
}
#: Tables in which each command or route has a line.
TABLES = ("tests/run/web/test_access_matrix.py", "tests/e2e/smoke/test_commands.py")
#: Tests of the rest: clients and operations, rights, pages, commands and processes.
PLAYED = (
    "tests/run/contracts", "tests/run/web/test_access_matrix.py", "tests/run/web/test_overview.py",
    "tests/run/web/test_app.py", "tests/unit/cli", "tests/unit/store", "tests/unit/domain",
    "tests/e2e/smoke",
)  # fmt: skip
#: The golden files of what users and programs call.
SURFACE = ("command_line", "openapi", "public_names")


def run_in(root: Path, *command: str) -> str:
    """Run Python in the copy, and return its output."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-5000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("feature", NAMES)
def test_the_rest_is_whole_without_a_feature(feature: str, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    copy_without(feature, root, dict.fromkeys(TABLES, WORDS[feature]))
    run_in(root, "-m", "mypy", "worker", "flows", "perdure")
    run_in(root, "-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    names = [f"--ignore={path}" for path in files_of_tests(feature, root)]
    pytest_arguments = ("-p", "no:cacheprovider", "-q", "-m", "not slow", "-k", f"not {feature}")
    told = run_in(root, "-m", "pytest", *pytest_arguments, *names, *PLAYED)
    assert int(re.findall(r"(\d+) passed", told)[-1]) > 300


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("feature", NAMES)
def test_without_a_feature_the_surface_only_loses(feature: str, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    copy_without(feature, root)
    run_in(root, "-m", "tests.golden", *SURFACE)
    for name in SURFACE:
        old, new = (
            set((place / f"tests/golden/files/{name}.txt").read_text("utf-8").splitlines())
            for place in (ROOT, root)
        )
        assert new - old == set(), name
