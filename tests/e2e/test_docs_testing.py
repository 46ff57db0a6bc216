"""The examples of docs/guides/testing.md run as printed, with the output that the page shows."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import CrashFound, Lab
from perdure.worker.embedded import EmbeddedServer
from tests.support.flow_registry import own_registry
from tests.support.plugin_options import PLUGIN
from tests.support.redis_servers import CrashableServer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guides" / "testing.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# ([^\n]+)\n(.*?)```", TEXT, re.DOTALL))
#: The output of the lab: of the naive shop, and without pytest.
FOUND, REPORT = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)


def mended(naive: str) -> str:
    """Return the shop with its last line as the page has it in the end."""
    lines = naive.rstrip().splitlines()
    assert lines[-1].strip() == "return bank.charge(amount)"
    return "\n".join([*lines[:-1], EXAMPLES["the corrected line"]])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with the examples in it."""
    for name, text in EXAMPLES.items():
        if name.endswith(".py"):
            (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.fixture
def lab(server: CrashableServer) -> Iterator[Lab]:
    with Lab(server.url) as made:
        yield made


@contextmanager
def imported(project: Path) -> Iterator[Any]:
    """Import the example's test module without leaving anything behind: other pages have a ``shop``
    too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project)
        patch.setattr(sys, "dont_write_bytecode", True)
        own_registry(patch)
        try:
            yield importlib.import_module("test_shop")
        finally:
            for module in ("bank", "shop", "test_shop"):
                sys.modules.pop(module, None)


@pytest.mark.slow
def test_the_naive_shop_is_found_and_the_mended_one_is_not(
    project: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with imported(project) as example, pytest.raises(CrashFound) as found:
        example.test_a_book_is_paid_once(lab, monkeypatch)
    assert FOUND.splitlines()[0] == str(found.value).splitlines()[0]
    monkeypatch.undo()
    (project / "shop.py").write_text(mended(EXAMPLES["shop.py"]), "utf-8")
    with imported(project) as example:
        example.test_a_book_is_paid_once(lab, monkeypatch)


def run(project: Path, *command: str, **environment: str) -> str:
    """Run a command in the project as its author would; return its output."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "PYTEST_")) and name != "CI"
    }
    done = subprocess.run(
        [sys.executable, "-B", *command],
        cwd=project,
        env={**clean, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.stdout + done.stderr


def pytest_says(project: Path, *options: str, **environment: str) -> str:
    return run(
        project,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:valkey",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        *options,
        **environment,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pytest_prints_what_the_page_shows(project: Path) -> None:
    said = pytest_says(project, *PLUGIN, "test_shop.py")
    told = "\n".join(
        line.removeprefix("E").strip() for line in said.splitlines() if line.startswith("E")
    )
    assert told.removeprefix("perdure.worker.testing.errors.CrashFound: ") == "\n".join(
        line.strip() for line in FOUND.rstrip().splitlines()
    ), said
    (project / "shop.py").write_text(mended(EXAMPLES["shop.py"]), "utf-8")
    assert "1 passed" in pytest_says(project, *PLUGIN, "test_shop.py")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_pytest_it_is_a_function_and_prints_a_report(project: Path) -> None:
    said = run(project, "-c", "import sys; sys.modules['pytest'] = None; import no_pytest")
    assert re.sub(r"in \d+\.\d s", "in 0.9 s", said) == REPORT


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_server_outlives_its_lab_for_long(project: Path) -> None:
    """Neither if the process ends by itself, nor, with another lab made, if it was killed."""
    place = Path(tempfile.mkdtemp(prefix="hf-"))
    a_lab = "from perdure.testing import crash_lab; print(crash_lab('countdown', inputs={'rounds': 0}, limit=1))"
    try:
        assert "nothing found" in run(project, "-c", a_lab, TMPDIR=str(place))
        assert list(place.iterdir()) == []
        run(project, "-c", f"{a_lab}; import os; os.kill(os.getpid(), 9)", TMPDIR=str(place))
        [left] = place.iterdir()
        server = EmbeddedServer(left)
        assert server.alive()
        assert "nothing found" in run(project, "-c", a_lab, TMPDIR=str(place))
        assert server.alive()  # it could be a server that is just being made
        os.utime(left, (0, 0))
        assert "nothing found" in run(project, "-c", a_lab, TMPDIR=str(place))
        assert not server.alive() and list(place.iterdir()) == []
    finally:
        for left in place.iterdir():
            with EmbeddedServer(left):
                """The process that starts it owns it, and ends it."""
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_server_can_be_named_and_is_left_as_it_was(
    project: Path, server: CrashableServer, prefix: str
) -> None:
    # The fixture nothing_leaks looks at the server afterwards.
    code = "import perdure.worker.testing.server as ground; ground.LabServer._start = None; import no_pytest"  # no server of its own
    assert "nothing found" in run(project, "-c", code, PERDURE_TEST_URL=server.url)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_plugin_is_found_where_perdure_is_installed_and_imports_nothing_of_it_unasked(
    project: Path,
) -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"][
        "pytest11"
    ]
    installed = project / "somewhere" / "installed-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    names = "".join(
        f"{name}_here = {value}\n" for name, value in entry.items()
    )  # this tree may be installed under the plain name
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{names}")
    (project / "test_lazy.py").write_text(
        textwrap.dedent("""
        import sys

        def test_lazy():
            assert "perdure.worker.testing.plugin" in sys.modules
            assert not {name for name in sys.modules if name.split(".")[0] in ("celery", "redis", "pydantic", "flows", "worker")}

        def test_fixture(crash_lab):
            assert crash_lab("countdown", inputs={"rounds": 0}, limit=3).stories == 3
        """)
    )
    path = f"{ROOT}{os.pathsep}{installed.parent}"
    others = ("-p", "no:perdure", "-p", "no:langsmith_plugin")  # it imports pydantic
    assert "2 passed" in pytest_says(project, *others, "test_lazy.py", PYTHONPATH=path)


@pytest.mark.parametrize("name", ["worker.py", "flows.py", "worker/__init__.py"])
def test_a_project_with_modules_of_these_names_is_tested_as_without_perdure(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("queue = []\n")
    module = name.split("/")[0].removesuffix(".py")
    (tmp_path / "test_theirs.py").write_text(
        f"import {module}\n\ndef test_it():\n    assert {module}.queue == []\n\ndef test_lab(crash_lab):\n    pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *PLUGIN,
        "-p",
        "no:cacheprovider",
        "test_theirs.py",
    ]
    bare = {variable: text for variable, text in os.environ.items() if variable != "PYTHONPATH"}
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**bare, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
