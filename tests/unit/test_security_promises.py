"""The promises of SECURITY.md: each is in the file, and the tests that show it exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES: dict[str, list[str]] = {
    promise["text"]: promise["tests"]
    for promise in tomllib.loads((ROOT / "tests/security_tests.toml").read_text("utf-8"))["promise"]
}


def test_each_promise_is_a_heading_or_a_sentence_of_the_page() -> None:
    assert set(PROMISES) - statements(SECURITY) == set()


def test_each_attacker_has_a_promise_and_limits() -> None:
    sections = re.split(r"(?m)^#{2,3} (?=.)", SECURITY.partition("\n## The servers\n")[2])
    attackers = [section for section in sections if "\n\n" in section.strip()]
    assert len(attackers) >= 20
    for attacker in attackers:
        title = attacker.partition("\n")[0]
        assert statements(attacker) & set(PROMISES), f"no test for {title!r}"
        assert "\n\nLimits: " in attacker, f"no limits for {title!r}"


def test_each_test_exists() -> None:
    named = [test for tests in PROMISES.values() for test in tests]
    assert [test for test in named if not exists(*test.split("::"))] == []
    assert all(PROMISES.values()), "each promise has a test"


def test_a_test_that_does_not_exist_is_found() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert exists(here, "test_each_test_exists")
    assert not exists(here, "test_no_such_function")
    assert not exists("tests/no_such_file.py", "test_each_test_exists")


def statements(markdown: str) -> set[str]:
    """Return the headings and the sentences of Markdown, each on one line."""
    blocks = re.split(r"\n\s*\n|\n(?=- )", markdown)
    lines = [" ".join(re.sub(r"\A\s*(#+|-) ", "", block).split()) for block in blocks]
    return {sentence for line in lines for sentence in re.split(r"(?<=\.) (?=\S)", line)}


def exists(path: str, name: str) -> bool:
    """Return whether the file has a test function with this name."""
    return name in functions(ROOT / path)


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the names of the functions at the top of a module, none if it does not exist."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
