"""The start: which packages are loaded before a process does anything.

These names stand for the time that a start takes; times themselves belong to ``benchmarks/``.
"""

from __future__ import annotations

from tests.golden.golden_files import compare
from tests.golden.loaded_modules import loaded, packages

#: The first imports of a process, by its kind.
STARTS = {
    "help": "from perdure.worker.cli.main import run; assert run(['--help']) == 0",
    "version": "from perdure.worker.cli.main import run; assert run(['--version']) == 0",
    "face": "import perdure",
    "flows": "import perdure.flows",
    "pytest plugin": "import perdure.worker.testing.plugin",
    "testing": "import perdure.testing",
}


def test_a_start_loads_the_packages_of_the_golden_file() -> None:
    compare("startup", {what: packages(loaded(script)) for what, script in STARTS.items()})
