"""The wheel: which files an installation brings, its entry points and its metadata."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from tests.golden.golden_files import PRODUCT, compare, without_modules

ROOT = Path(__file__).parents[2]
#: Folders whose content is listed with their names; what is above them may move.
DATA = ("_config", "lua", "static", "templates")
#: Metadata that is prose, or that the build tool chooses.
LEFT_OUT = ("Description", "Description-Content-Type", "Summary", "Keywords", "Metadata-Version")
#: Requirements of these extras are tools of the repository, and no promise to users.
TOOLS = re.compile(r"extra == '(dev|docs|bench|mutants)'$")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the working tree, built in this process; needs no network."""
    if importlib.util.find_spec("hatchling") is None and "CI" not in os.environ:
        pytest.skip("this environment has no hatchling; .venv/bin/pip install hatchling")
    from hatchling.builders.wheel import WheelBuilder

    directory = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(directory), versions=["standard"])
    return zipfile.ZipFile(built)


def test_data_files_entry_points_and_metadata_are_those_of_the_golden_file(
    wheel: zipfile.ZipFile,
) -> None:
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    own = [name for name in names if ".data/" not in name]
    compare(
        "wheel",
        {
            "files of data": {data_name(name) for name in own if not name.endswith(".py")},
            "scripts": {name.rpartition(".data/")[2] for name in names if ".data/" in name},
            "modules at the top": {name for name in own if "/" not in name},
            "dist-info": {
                name.rpartition(".dist-info/")[2]
                for name in wheel.namelist()
                if ".dist-info/" in name
            },
            "entry points": entry_points(read(wheel, "entry_points.txt")),
            "metadata": metadata(read(wheel, "METADATA")),
        },
    )


def test_the_wheel_has_every_module_of_the_tree_and_no_other(wheel: zipfile.ZipFile) -> None:
    """A folder of the tree may be installed below the product's package."""
    modules = [name for name in wheel.namelist() if name.endswith(".py")]
    in_tree = modules_in_tree()
    assert {short(name) for name in modules} == {short(name) for name in in_tree}
    assert len(modules) == len(in_tree)


def modules_in_tree() -> set[str]:
    """Return the paths of the product's modules in the repository."""
    return {
        path.relative_to(ROOT).as_posix()
        for package in (PRODUCT, "flows", "worker")
        for path in (ROOT / package).rglob("*.py")
        if path.is_file()
    }


def short(name: str) -> str:
    """Return a module's path below the product's package, if it is there."""
    return name.removeprefix(f"{PRODUCT}/")


def data_name(name: str) -> str:
    """Return a file's path from its data folder on, or its plain name."""
    parts = name.split("/")
    starts = [parts.index(folder) for folder in DATA if folder in parts[:-1]]
    return "/".join(parts[min(starts, default=len(parts) - 1) :])


def read(wheel: zipfile.ZipFile, name: str) -> str:
    """Return the text of a file of the wheel's dist-info."""
    (path,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def entry_points(text: str) -> dict[str, dict[str, str]]:
    """Return the entry points by group and name, their objects without module paths."""
    parsed = configparser.ConfigParser(delimiters=["="])
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return {
        group: {
            name: without_modules(place).rpartition(":")[2] for name, place in parsed[group].items()
        }
        for group in parsed.sections()
    }


def metadata(text: str) -> dict[str, Any]:
    """Return the fields of METADATA by name."""
    fields: dict[str, Any] = {}
    for name, value in Parser().parsestr(text).items():
        if name not in LEFT_OUT and not TOOLS.search(value):
            fields.setdefault(name, []).append(value)
    return {name: set(values) for name, values in fields.items()}


def test_the_source_distribution_has_every_module_as_a_real_file(tmp_path: Path) -> None:
    """perdure/worker and perdure/flows are links: a walk can take them twice, or not at all."""
    from hatchling.builders.sdist import SdistBuilder

    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    modules = {
        name
        for name in members
        if name.endswith(".py") and not name.startswith(("tests/", "benchmarks/", "docs/"))
    }
    in_tree = modules_in_tree()
    assert modules == in_tree and all(members[name].isfile() for name in modules)
