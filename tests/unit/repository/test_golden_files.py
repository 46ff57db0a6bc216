"""Golden files: each fact is a line, and a failure names the facts that changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import golden_files
from tests.golden.golden_files import REWRITE, as_text, compare, difference, facts_of, names_in

VALUE = {
    "commands": {"perdure list": {"--limit": {"type": "int", "default": 50}}, "perdure demo": {}},
    "starts": {"help": {"click", "amqp"}, "import": set()},
    "codes": {2, 0},
    "type": "null",
    "default": None,
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the golden files, empty."""
    monkeypatch.setattr(golden_files, "FILES", tmp_path)
    monkeypatch.delenv(REWRITE, raising=False)
    return tmp_path


def test_a_fact_is_a_line_and_the_lines_are_sorted_by_path() -> None:
    assert as_text(VALUE, depth=3).splitlines() == [
        "codes: 0",
        "codes: 2",
        "commands > PRODUCT demo: {}",
        'commands > PRODUCT list > --limit: {"default": 50, "type": "int"}',
        "default: null",
        "starts > help: amqp",
        "starts > help: click",
        "starts > import: []",
        'type: "null"',
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("null", None),
        ("1", 1),
        (1, True),
        ("[]", []),
        ({}, []),
        ("", None),
        ("a b", "a  b"),
        ("a\nb: c", ["a", {"b": "c"}]),
        (["a", "b"], ["b", "a"]),
        (["a"], "a"),
        ({"a": {}}, {"a": "a"}),
        ({"a": {"b": "c"}}, {"a": "b"}),
    ],
)
def test_different_values_have_different_lines(one: Any, other: Any) -> None:
    for depth in (None, 1):
        assert as_text({"key": one}, depth) != as_text({"key": other}, depth)
        assert len(as_text({"key": one}, depth).splitlines()) == 1


def test_a_key_that_would_split_its_path_is_refused() -> None:
    for key in ("a > b", "a: b"):
        with pytest.raises(AssertionError, match="cannot be part of a path"):
            as_text({key: 1})


def test_a_failure_names_the_facts_that_changed_and_no_others(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as rewriting:
        rewriting.setenv(REWRITE, "1")
        compare("sample", VALUE)
    compare("sample", VALUE)
    changed = {**VALUE, "default": 7, "starts": {"help": {"click"}, "import": {"click"}}}
    with pytest.raises(pytest.fail.Exception) as failure:
        compare("sample", changed)
    assert str(failure.value).splitlines() == [
        "sample differs from tests/golden/files/sample.txt (- expected, + actual):",
        "- default: null",
        "+ default: 7",
        "- starts > help: amqp",
        "- starts > import: []",
        "+ starts > import: click",
        "If the change is intended, rewrite the file, review it and commit it:",
        "    .venv/bin/python -m tests.golden sample",
    ]


def test_a_file_that_does_not_exist_differs(files: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"\+ type: \"null\""):
        compare("sample", VALUE)


def test_a_long_line_that_changed_is_followed_by_the_words_that_differ() -> None:
    before = f"submit: method (self, {'a: int, ' * 20}mode: str = 'graceful', *, end: bool) -> Run"
    after = before.replace("graceful", "now")
    assert difference(before, after) == [f"- {before}", f"+ {after}", "? graceful -> now"]
    assert difference(before, before.replace(", *", ""))[-1] == "? *,  -> nothing"
    assert difference(before, before.replace("a: int, ", "a: int, a: int, ", 1))[-1].startswith(
        "? nothing -> "
    )


def test_lines_in_another_order_differ() -> None:
    assert difference("a: 1\nb: 2", "b: 2\na: 1") != []


def test_facts_are_read_from_the_file(files: Path) -> None:
    (files / "sample.txt").write_text(as_text(VALUE))
    assert (("commands", "PRODUCT list", "--limit", "default"), "50") in facts_of("sample")
    assert names_in("sample", "commands") == {"PRODUCT demo", "PRODUCT list"}
