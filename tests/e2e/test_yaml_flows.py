"""Flows written in YAML whose worker and client know different plugins: processes.

The rules of the files are in tests/run/runs/test_yaml_flows.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.rounds import registry
from perdure.worker.settings import Settings
from tests.conftest import StartsWorkers
from tests.support.command_line import CommandLine
from tests.support.example_flows import yaml_flow_parts as written

MODULE = "tests.support.example_flows.yaml_flow_parts"
pytestmark = pytest.mark.usefixtures("_own_directory")


@pytest.fixture
def _own_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flows of the test are there, also where another test has set the registry back."""
    monkeypatch.setattr(sources, "_directories", Directories())
    sources.add_directory(written.DIRECTORY)


def test_a_client_without_the_files_submits_what_a_worker_has_announced(
    settings: Settings, worker_process: StartsWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    monkeypatch.setattr(sources, "_directories", Directories())
    monkeypatch.setattr(registry, "_definitions", {})
    client = Client(settings=settings)
    try:
        flow = client.flows()["counting"]
        assert flow["inputs"]["properties"]["times"] == {
            "default": 2,
            "description": "how often to go round",
            "title": "Times",
            "type": "integer",
        }
        assert (
            client.wait(client.submit("counting", "three", {"times": 3}).id, timeout=30).answer == 3
        )
    finally:
        client.close()


@pytest.mark.slow
def test_a_broken_file_takes_no_flow_away_from_a_worker(
    client: Client, worker_process: StartsWorkers, tmp_path: Path
) -> None:
    """A worker whose flow module adds a directory with one good and one broken file plays the good
    one.
    """
    (tmp_path / "broken.yaml").write_text("flow: circular\ntopology: [{name: A, flow: nobody}]\n")
    (tmp_path / "good.yaml").write_text(
        "flow: controller_executor\ncontroller: scripted\nsubflows_config:\n"
        "  Controller: {replies: [{command: finish, command_args: {answer: 1}}]}\n"
    )
    (tmp_path / "two_files.py").write_text(
        "from pathlib import Path\nimport perdure\nperdure.add_directory(Path(__file__).parent)\n"
    )
    worker_process(PERDURE_FLOW_MODULES="two_files", PYTHONPATH=str(tmp_path))
    announced = client.flows()
    assert "good" in announced
    assert "broken" not in announced
    assert client.wait(client.submit("good", "one").id, timeout=30).answer == 1


def _install(place: Path, name: str, source: str, entry: str) -> None:
    """Install a tiny distribution, as an installer does."""
    (place / f"{name}.py").write_text(source)
    info = place / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,,\n")
    (info / "entry_points.txt").write_text(f"[perdure.flows]\n{entry}\n")


@pytest.mark.slow
def test_an_installed_package_brings_a_flow_and_what_files_name(
    client: Client, worker_process: StartsWorkers, tmp_path: Path
) -> None:
    """Nothing is set: the entry point alone makes the worker import the package, which adds its
    files as well.
    """
    (tmp_path / "from_a_file.yaml").write_text(
        "flow: circular\ntopology: [{name: A, flow: acme.end}]\n"
    )
    source = (
        "from pathlib import Path\n"
        "from perdure import CircularFlow, Finish, Node, add_directory, node\n"
        "@node('acme.end')\n"
        "def end(state, context):\n"
        "    return Finish('from a file')\n"
        "class Plugged(CircularFlow):\n"
        "    topology = (Node('A', lambda state, context: Finish('from a package')),)\n"
        "add_directory(Path(__file__).parent)\n"
    )
    _install(tmp_path, "acme_flows", source, "plugged = acme_flows:Plugged")
    worker_process(PERDURE_FLOW_MODULES="", PYTHONPATH=str(tmp_path))
    assert client.wait(client.submit("plugged", "g").id, timeout=30).answer == "from a package"
    assert client.wait(client.submit("from_a_file", "g").id, timeout=30).answer == "from a file"


@pytest.mark.slow
def test_a_worker_plays_the_flows_of_its_working_directory(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "config" / "flows").mkdir(parents=True)
    (tmp_path / "config" / "flows" / "mine.yaml").write_text(
        "name: CtrlEx\nflow: controller_executor\ncontroller: scripted\n"
        "subflows_config: {Controller: {replies: [{command: finish, command_args: {answer: mine}}]}}\n"
    )
    perdure = CommandLine(tmp_path, settings)
    with perdure.worker():
        done = perdure("submit", "CtrlEx", "g", "--watch")
        assert done.code == 0 and "answer: mine" in done.out, done
