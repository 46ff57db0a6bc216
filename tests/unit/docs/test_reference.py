"""The generator of the reference pages; tests/golden/test_reference.py has the pages."""

from __future__ import annotations

import pytest

from perdure import RunStatus
from tests.reference import python_api, settings
from tests.reference.docstrings import descriptions, markdown_of, summary_of
from tests.reference.markdown import items, paragraph, table, text


def test_sections_of_a_docstring_become_lists() -> None:
    docstring = """Do a thing.

    More of ``it`` than <that>.

    Args:
        one, two: The first
            ones.
        *rest: Others.

    Returns:
        The ``thing``.

    Raises:
        ValueError: None fits.
    """
    assert markdown_of(docstring).split("\n\n") == [
        "Do a thing.", "More of `it` than \\<that>.", "**Arguments**",
        "- `one`, `two`: The first ones.\n- `*rest`: Others.", "**Returns**", "The `thing`.",
        "**Raises**", "- `ValueError`: None fits.",
    ]  # fmt: skip
    assert list(descriptions(docstring)) == ["one", "two", "rest"]
    assert summary_of(docstring) == "Do a thing."


def test_blocks_of_code_in_a_docstring_stay_as_they_are() -> None:
    assert markdown_of("Say so::\n\n    a = 1\n    b = 2\n\nEnd.").endswith(
        "```python\na = 1\nb = 2\n```\n\nEnd."
    )


def test_a_signature_has_defaults_as_python_has_them() -> None:
    def find(
        one: str, two: RunStatus = RunStatus.COMPLETED, *, three: object = object(), four: str = "="
    ) -> None: ...

    assert python_api.signature("find", find) == (
        "def find(\n    one: str,\n    two: RunStatus = RunStatus.COMPLETED,\n    *,\n"
        "    three: object = ...,\n    four: str = '=',\n) -> None"
    )


def test_a_wrapped_line_never_begins_a_list() -> None:
    wrapped = paragraph("word " * 19 + "is - no item, and 1. neither")
    assert not [line for line in wrapped.splitlines() if line.startswith(("- ", "1. "))]
    assert items(["a b", "c"]) == "- a b\n- c"


def test_a_pipe_in_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="pipe"):
        table(("Type",), [("`str | None`",)])


def test_a_page_of_the_docs_becomes_a_link_if_it_exists() -> None:
    assert text("See docs/guides/errors.md and docs/nothing.md.").count("](") == 1


def test_comments_of_the_settings_file_belong_to_the_keys_below_them() -> None:
    source = "# Head.\n\n# --- time ----\n\n# How long,\n# and how often.\n# one = 1\n# two = 2\n\n# x = 3\n"
    assert settings.blocks(source) == [
        settings.Block("time", "How long, and how often.", ("one", "two")),
        settings.Block("time", "", ("x",)),
    ]
