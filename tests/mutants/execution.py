"""Run the guards of a Lua file under its mutants: each mutant in a separate process, against a
separate server.

The process reads a copy of the Lua files, so the tree stays as it is. It ends at the first failure.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.store import scripts
from tests.mutants.mutant import Mutant

STORE = Path(__file__).parents[1] / "store"
#: Seconds for one test. A script that never ends blocks its server.
TEST_SECONDS = 20
#: Seconds for all guards of a mutant: the whole of tests/store takes one minute.
GUARD_SECONDS = 300
#: Seconds in which an interrupted process ends its server.
GRACE = 15
OPTIONS = (
    "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", f"--timeout={TEST_SECONDS}",
    # This process has imported the package whose plugin pytest finds.
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a mutant: the test that failed under it, or ``""`` if it survived; ``output`` is
    pytest's.
    """

    killer: str
    output: str


class Witness:
    """A pytest plugin that writes the first test that fails into a file.

    One kind of server is enough.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item
            for item in items
            if getattr(item, "callspec", None) is None
            or item.callspec.params.get("any_server") != "redis"  # type: ignore[attr-defined]
        ]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid.rpartition("/")[2], "utf-8")


def run(mutant: Mutant | None, tests: Sequence[str]) -> Fate:
    """Run tests of tests/store, in this order, under a mutant, or under the plain Lua files."""
    with tempfile.TemporaryDirectory(prefix="hf-mutant-") as place:
        folder, witness, output = (Path(place) / name for name in ("scripts", "failed", "output"))
        if mutant is not None:
            mutant.write(folder)
        child = os.fork()
        if child == 0:
            os._exit(_play(None if mutant is None else folder, witness, output, tests))
        code = _awaited(child)
        told = output.read_text("utf-8") if output.exists() else ""
        if witness.exists():
            return Fate(witness.read_text("utf-8"), told)
        if code not in (0, None):
            raise RuntimeError(f"pytest could not run {tests} (exit code {code}):\n{told}")
        return Fate("" if code == 0 else f"no end within {GUARD_SECONDS} s", told)


def _play(folder: Path | None, witness: Path, output: Path, tests: Sequence[str]) -> int:
    """Run pytest in this forked process; return its code."""
    os.setsid()
    with output.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    if folder is not None:
        scripts.files = lambda package: folder  # type: ignore[assignment, return-value]
        scripts.source.cache_clear()
    files = [str(STORE / test) for test in tests]
    try:
        return int(pytest.main([*OPTIONS, *files], plugins=[Witness(witness)]))
    except BaseException as error:
        with contextlib.suppress(OSError):
            output.write_text(f"{output.read_text()}\n{error!r}")
        return 70


def _awaited(child: int) -> int | None:
    """Return the exit code of a child, or None if it had to be ended."""
    end = time.monotonic() + GUARD_SECONDS
    for signal_number, grace in ((None, 0), (signal.SIGINT, GRACE), (signal.SIGKILL, GRACE)):
        if signal_number is not None:
            os.killpg(child, signal_number)
            end = time.monotonic() + grace
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) if signal_number is None else None
            time.sleep(0.02)
    raise RuntimeError(f"process {child} does not end")


def preload() -> None:
    """Import the modules of the tests, once for all mutants: a forked process has them then."""
    for path in (STORE.parent / "conftest.py", *sorted(STORE.glob("*.py"))):
        parts = path.relative_to(STORE.parents[1]).with_suffix("").parts
        importlib.import_module(".".join(parts))
