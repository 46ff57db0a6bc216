"""Perdure installed from its wheel, beside projects whose modules have the names of our folders."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from perdure.worker.settings import Settings

ROOT = Path(__file__).parents[2]
#: Modules of a project: their files, and the content of each.
NAMES = ("worker.py", "worker/__init__.py", "flows.py", "flows/__init__.py", "config/__init__.py")
FLOW = """
import {module}
from perdure import ControllerExecutorFlow, Finish, register


@register("theirs")
class Theirs(ControllerExecutorFlow):
    def decide(self, context):
        return Finish({module}.ANSWER)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it, and nothing else of the repository on its path.

    The dependencies are those of this environment. An editable install of Perdure in it is not
    seen, since Python reads ``.pth`` files only in the environment's own folder.
    """
    home = tmp_path_factory.mktemp("installed")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(home), versions=["standard"])
    venv.create(home / "env", with_pip=False)
    python = home / "env" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = home / "env" / "lib" / version / "site-packages"
    (own / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", wheel], check=True, timeout=100)
    return home / "env" / "bin"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_project_with_a_module_of_this_name_runs_its_flow(
    installed: Path, tmp_path: Path, settings: Settings, name: str
) -> None:
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("ANSWER = 'from their module'\n")
    module = name.removesuffix(".py").split("/", maxsplit=1)[0]
    (tmp_path / "shop.py").write_text(FLOW.format(module=module))
    environment = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "PERDURE_REDIS_URL": str(settings.redis_url),
        "PERDURE_PREFIX": settings.prefix,
        "PERDURE_FLOW_MODULES": "shop",
    }
    python = str(installed / "python")
    where = subprocess.check_output(
        [python, "-c", "import perdure; print(perdure.__file__)"], cwd=tmp_path, env=environment
    )
    assert str(installed.parent) in where.decode(), "the wheel's, not the repository's"
    command = [python, "-m", "celery", "-A", "perdure.app", "worker", "--loglevel", "WARNING"]
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        done = subprocess.run(
            [installed / "perdure", "submit", "theirs", "a goal", "--watch", "--json"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "from their module" in done.stdout, done
    finally:
        worker.terminate()
        assert worker.wait(30) == 0
