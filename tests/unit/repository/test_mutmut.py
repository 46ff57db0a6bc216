"""The configuration of mutmut names files that exist, by the names of their imports."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONFIG = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["tool"]["mutmut"]


def test_each_file_that_mutmut_is_to_read_exists() -> None:
    names = ("only_mutate", "also_copy", "pytest_add_cli_args_test_selection")
    missing = [path for name in names for path in CONFIG[name] if not ROOT.joinpath(path).exists()]
    assert missing == []


def test_all_modules_of_perdure_itself_are_beside_the_mutated_ones() -> None:
    own = {f"perdure/{path.name}" for path in ROOT.joinpath("perdure").glob("*.py")}
    assert own <= {*CONFIG["also_copy"]}


def test_mutants_have_the_names_of_imported_modules() -> None:
    assert {*CONFIG["source_paths"]} == {"perdure/worker", "perdure/flows"}
    assert all(path.startswith("perdure/") for path in CONFIG["only_mutate"])
