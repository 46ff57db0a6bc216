"""Play tests of tests/store against mutants: each of a mutant's tests runs once as it is, and once with the mutant's scripts.

The change is made to a copy, and the process reads that; the tree stays as it is.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.mutants.mutant import Mutant
from worker.store import scripts

STORE = Path(__file__).parents[1] / "store"
ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the mutants: each one's killer, the survivors, and the tests that fail without any mutant."""

    killed: Mapping[str, str]
    survived: tuple[str, ...]
    broken: tuple[str, ...]
    told: str


def play(mutants: Sequence[Mutant], tests: Sequence[str] = ()) -> Fate:
    """Play the mutants' killers, or ``tests`` against every one, each until the first that fails.

    Args:
        tests: of tests/store, ``test_x.py`` or ``test_x.py::test_y``; none: each mutant's ``killed_by``.
    """
    with tempfile.TemporaryDirectory(prefix="hf-mutants-") as place:
        stage = Stage(mutants, bool(tests), Path(place))
        said = io.StringIO()
        files = [str(STORE / test) for test in tests or sorted({mutant.killed_by for mutant in mutants})]
        with contextlib.redirect_stdout(said):
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-m", "not slow"]
            # This process has imported the package whose plugin pytest finds.
            options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
            code = pytest.main([*options, *files], plugins=[stage])
    assert code in (0, 1), f"pytest could not play the mutants:\n{said.getvalue()}"
    survived = tuple(mutant.name for mutant in mutants if mutant.name not in stage.killed)
    return Fate(stage.killed, survived, tuple(stage.broken), said.getvalue())


class Stage:
    """A pytest plugin: repeats each test for each of its mutants."""

    def __init__(self, mutants: Sequence[Mutant], all_against_all: bool, place: Path) -> None:
        self.mutants = {mutant.name: mutant for mutant in mutants}
        self.all_against_all = all_against_all
        self.place = place
        self.killed: dict[str, str] = {}
        self.broken: list[str] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        mine = f"{metafunc.definition.path.name}::{metafunc.function.__name__}"
        names = [name for name, mutant in self.mutants.items() if self.all_against_all or mutant.killed_by == mine]
        metafunc.parametrize("scripts_of", [ORIGINAL, *names], indirect=True)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """One kind of server will do: what is changed is the scripts."""
        items[:] = [item for item in items if item.callspec.params.get("any_server") != "redis"]  # type: ignore[attr-defined]

    @pytest.fixture(autouse=True)
    def scripts_of(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """The scripts as the mutant has them; a mutant that is dead already is not played again."""
        name = request.param
        if name == ORIGINAL:
            yield
            return
        if name in self.killed:
            pytest.skip("killed")
        folder = self.place / name
        if not folder.exists():
            folder.mkdir()
            self.mutants[name].write(folder)
        with patch.object(scripts, "files", lambda package: folder):
            scripts.source.cache_clear()
            yield
        scripts.source.cache_clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Function, call: pytest.CallInfo[Any]) -> Any:
        report = yield
        name = item.callspec.params["scripts_of"]
        if report.failed:
            if name == ORIGINAL:
                self.broken.append(item.nodeid)
            else:
                self.killed.setdefault(name, f"{item.path.name}::{item.originalname}")
        return report
