"""The reference pages are what the code says, and name everything that users can reach."""

from __future__ import annotations

import re
from collections import Counter

import click
import pytest

import perdure
import perdure.testing
from perdure.worker.settings import Settings
from tests.golden.golden_files import facts_of, names_in
from tests.reference import cli, errors, http, metrics, python_api, settings, site
from tests.reference.markdown import DOCS, anchor
from tests.reference.subjects import SUBJECTS

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
#: Links to a heading, on the same page or on another one of the reference.
LINK = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site.pages()


def headings(page: str) -> list[str]:
    """Return the headings of a page, without those inside blocks of code."""
    return HEADING.findall(re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def test_every_public_name_has_one_subject_and_one_entry(pages: dict[str, str]) -> None:
    described = [(name, each.module) for each in SUBJECTS.values() for name in each.names]
    assert sorted(described) == sorted(python_api.exported()), (
        "sort new names into tests/reference/subjects.py"
    )
    for key, subject in SUBJECTS.items():
        shown = headings(pages[f"python/{key}.md"])
        for name in subject.names:
            value = python_api.public_value(subject.module, name)
            assert shown.count(python_api.heading(name, value)) == 1, name


def test_every_member_with_a_docstring_has_an_entry(pages: dict[str, str]) -> None:
    assert "### `Client.submit()`" in pages["python/client.md"]
    assert "### `AsyncClient.submit()`" in pages["python/client.md"]
    assert "### `Run.finished`" in pages["python/runs.md"]
    for key, subject in SUBJECTS.items():
        for name in subject.names:
            value = python_api.public_value(subject.module, name)
            if not isinstance(value, type) or value.__name__ != name:
                continue
            for member in python_api.members(value):
                assert f"`{name}.{member.name}" in pages[f"python/{key}.md"] or (
                    f"`{member.name}" in pages[f"python/{key}.md"]
                )


def test_every_command_and_option_has_an_entry(pages: dict[str, str]) -> None:
    shown = pages["cli.md"]
    names = {name for name, _ in cli.commands()}
    golden = names_in("command_line", "commands") - {"PRODUCT"}
    assert {name.replace("PRODUCT", "perdure") for name in golden} <= names
    assert {f"perdure flows {each}" for each in ("check", "pause", "unpause")} <= names
    for name, command in cli.commands():
        assert f"`{name}`" in shown
        section = shown.partition(f"## `{name}`\n")[2].partition("\n## ")[0]
        for option in command.params if name.startswith("perdure") else ():
            if isinstance(option, click.Option) and not option.hidden:
                assert set(option.opts) <= set(re.findall(r"--?[\w-]+", section)), name


def test_every_route_and_schema_has_an_entry(pages: dict[str, str]) -> None:
    shown = headings(pages["http.md"])
    assert {f"`{name}`" for name in names_in("openapi", "operations")} <= set(shown)
    assert {f"`{name}`" for name in http.document()["components"]["schemas"]} <= set(shown)


def test_every_setting_has_an_entry_a_variable_and_its_default(pages: dict[str, str]) -> None:
    for name in Settings.model_fields:
        assert f"- `{name}`: " in pages["settings.md"]
        assert f"`{settings.variable(name)}`" in pages["settings.md"]


def test_every_error_of_the_clients_has_a_row(pages: dict[str, str]) -> None:
    for name in perdure.__all__:
        value = getattr(perdure, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert f"| `{name}` |" in pages["errors.md"]
    codes = {cls.exit_code for cls in errors.errors()}
    assert codes <= {code for code, _ in errors.EXIT_CODES}


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    golden = [int(code) for path, code in facts_of("command_line") if path == ("exit codes",)]
    assert [code for code, _ in errors.EXIT_CODES] == sorted(golden)


def test_every_metric_has_a_row(pages: dict[str, str]) -> None:
    expected = {name.replace("PRODUCT", "perdure") for name in names_in("metrics", "families")}
    assert expected == {family.name for family in metrics.families()}
    for name in expected:
        assert f"| `{name}" in pages["metrics.md"]


def test_everything_public_is_described() -> None:
    assert python_api.gaps() == []
    assert cli.gaps() == []
    assert http.gaps() == []
    assert settings.gaps() == []


def test_headings_of_a_page_have_different_anchors(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        repeated = [each for each, many in Counter(map(anchor, headings(page))).items() if many > 1]
        assert not repeated, name


def test_links_lead_to_headings(pages: dict[str, str]) -> None:
    anchors = {name: set(map(anchor, headings(page))) for name, page in pages.items()}
    for name, page in pages.items():
        for target, fragment in LINK.findall(page):
            assert fragment in anchors[target or name], f"{name}: {target}#{fragment}"
            assert "--" not in fragment, "mkdocs and GitHub differ in anchors with two hyphens"


def test_prose_has_100_columns(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        long = [line for line in page.splitlines() if len(line) > 100 and line[:1] != "|"]
        assert not long, name


def test_no_page_has_a_path_of_this_machine(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert str(DOCS.parent) not in page and " at 0x" not in page
