"""The imports of a fresh process for a command, a client or a flow, and the modules that it leaves
out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.worker.cli.main import COMMANDS
from tests.support.flow_registry import folder
from tests.support.mcp_flow_file import FLOW, written

__all__ = ["folder"]

ROOT = Path(__file__).parents[2]
#: Modules of ours that import much; tests/e2e/golden/test_startup.py watches the packages of
#: others.
HEAVY = ("flows", "perdure.worker.client", "perdure.worker.settings")


def test_help_imports_nothing_that_takes_time() -> None:
    script = "import sys; from perdure.worker.cli.main import run; assert run(['--help']) == 0; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1]
    assert [name for name in HEAVY if f"'{name}'" in loaded] == []
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_asking_for_one_shipped_flow_loads_no_other() -> None:
    modules = ("perdure.flows.library.question", "redis", "celery")
    code = f"import sys, perdure; perdure.make('countdown'); print([name for name in {modules} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "[]"


def test_a_file_of_ones_own_takes_precedence_over_a_flow_of_the_library(folder: Path) -> None:
    """In a fresh process, and whether or not all flows were asked for before."""
    (folder / "countdown.yaml").write_text(
        "flow: controller_executor\ncontroller: person\ndescription: own\n"
    )
    code = "import perdure, pathlib; perdure.add_directory(pathlib.Path('flows')); print(perdure.make('countdown').description); perdure.registered();"
    code += "print(perdure.make('countdown').description, perdure.load_failures())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder.parent,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines() == ["own", "own {}"]


def test_flows_without_files_never_load_a_yaml_reader() -> None:
    code = "import sys, perdure; perdure.make('countdown'); print('yaml' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "False"


def test_knowing_the_controller_loads_no_library() -> None:
    code = "import sys, perdure.flows.controllers.model, perdure.flows.rounds.registry as r, perdure.flows.loading.sources as s, pathlib; s.add_directory(pathlib.Path('config/flows')); r.registered();"
    code += "print([name for name in ('pydantic_ai', 'openai', 'httpx2') if name in sys.modules], r.load_failures())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[] {}"


def test_reading_a_flow_starts_no_server_and_loads_no_client(tmp_path: Path) -> None:
    """Nor does registering it, or asking for its commands; a flow without servers loads nothing for
    them at all.
    """
    file = written(tmp_path, FLOW % ("[]", f"touch, {tmp_path}/started"))
    script = (
        "import sys, perdure.app, flows\nfrom pathlib import Path\nfrom perdure.flows.loading import sources\nfrom perdure.flows.rounds import registry\n"
        "assert 'perdure.flows.executors.mcp' not in sys.modules\nsources.register_file(Path(sys.argv[1]))\n"
        "flow = registry.make('remote')\nassert flow.nodes and flow.missing is None and flow.offered()\n"
        "print([name for name in ('mcp', 'mcp_types', 'jsonschema', 'httpx2', 'anyio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert not (tmp_path / "started").exists()


@pytest.mark.slow
def test_a_client_loads_no_sdk_and_nothing_that_traces() -> None:
    """Except the parts of OpenTelemetry that redis-py loads by itself, if it is installed."""
    script = "import sys, redis; before = set(sys.modules); import perdure.app, perdure.worker.client.client, perdure.worker.engine.rounds; print(*set(sys.modules) - before)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "perdure.worker.client.client" in loaded
    assert [
        name
        for name in loaded
        if name.startswith("opentelemetry") or name == "perdure.worker.tracing.run_spans"
    ] == []
