"""The build of a flow: two workers have the same one if, and only if, their code is the same."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.flows.rounds import registry
from perdure.worker.runtime.builds import _files_below, builds_of
from tests.support.flow_registry import own_registry

FLOW = """
from perdure import Steps, workflow
import other_code

@workflow("built")
def built(steps: Steps) -> int:
    return other_code.NUMBER
"""
#: Modules of these tests.
OWN = ("built_flows", "other_code", "unrelated_code", "packed")
Build = Callable[..., str]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Returns the flow's build with these files, as a process that starts now has it."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "packed").mkdir()

    def build(files: dict[str, str], module: str = "built_flows", given: str = "") -> str:
        own_registry(monkeypatch, "built")
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        _forget()
        importlib.invalidate_caches()
        importlib.import_module(module)
        return builds_of({"built": registry.registered()["built"]}, (module,), given)["built"]

    yield build
    _forget()


def _forget() -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] in OWN]:
        del sys.modules[name]


FILES = {"built_flows.py": FLOW, "other_code.py": "NUMBER = 1", "unrelated_code.py": "A = 1"}


def test_it_is_that_of_the_flow_s_file_and_of_what_this_imports(build: Build) -> None:
    first = build(FILES)
    assert build({"unrelated_code.py": "A = 22"}) == first, "the flow does not import this file"
    assert build({"other_code.py": "NUMBER = 22"}) != first
    assert build(FILES) == first
    assert build({"built_flows.py": f"{FLOW}\n# more"}) != first


@pytest.mark.parametrize("init", [{"packed/__init__.py": ""}, {}], ids=["package", "folder"])
def test_each_file_of_a_package_counts(build: Build, init: dict[str, str]) -> None:
    files = {**init, "packed/flows.py": FLOW, "packed/more.py": "A = 1"}
    first = build({**FILES, **files}, "packed.flows")
    assert build({"packed/more.py": "A = 22"}, "packed.flows") != first


def test_what_nobody_can_load_does_not_count(build: Build, tmp_path: Path) -> None:
    files = {"packed/__init__.py": "", "packed/flows.py": FLOW}
    first = build({**FILES, **files}, "packed.flows")
    (tmp_path / "packed/gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "packed/env/site-packages").mkdir(parents=True)
    (tmp_path / "packed/env/site-packages/installed.py").write_text("A = 1")
    _files_below.cache_clear()
    assert build({}, "packed.flows") == first


def test_a_variable_that_the_files_read_counts(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = "import os\nNUMBER = int(os.environ.get('VARIANT', '1'))"
    first = build({**FILES, "other_code.py": reads})
    monkeypatch.setenv("ANOTHER", "2")
    assert build({}) == first
    monkeypatch.setenv("VARIANT", "2")
    assert build({}) != first


def test_the_setting_is_the_build_of_every_flow(build: Build) -> None:
    assert build(FILES, given="shop-1") == "shop-1"


def test_a_file_that_is_no_valid_code_counts_as_it_is(build: Build) -> None:
    guarded = f"{FLOW}\ntry:\n    import unrelated_code\nexcept SyntaxError:\n    pass\n"
    first = build({**FILES, "built_flows.py": guarded, "unrelated_code.py": "("})
    assert build({"unrelated_code.py": "(("}) != first


def test_flows_of_the_distribution_have_the_build_of_its_version() -> None:
    flows = registry.registered()
    builds = builds_of({name: flows[name] for name in ("countdown", "bisect")})
    assert len(set(builds.values())) == 1
