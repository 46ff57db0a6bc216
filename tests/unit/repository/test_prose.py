"""The linter of prose and names: each rule is broken once and kept once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from tests import prose

RULES = prose.Rules(
    roots=("worker", "flows", "docs", "README.md"),
    suffixes=(".py", ".lua", ".md", ".toml"),
    banned=("whoever", "so many", "is told", "letters?"),
    allowed=("dead letters?", "letters, digits"),
    properties=("property", "cached_property", "overload", "setter"),
    verbs=("return", "make", "re-read"),
    ing_allowed=("testing",),
    exempt=("worker/web", "docs/history.md"),
    clauses={"worker": 100.0, "docs": 90.0},
)


def check(tmp_path: Path, **files: str) -> list[tuple[str, int, str]]:
    """Write files (``__`` is a slash) and return path, line and rule of each fault."""
    for name, source in files.items():
        path = tmp_path / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    return [(fault.path, fault.line, fault.rule) for fault in prose.faults(tmp_path, RULES)]


@pytest.mark.parametrize(
    "source",
    [
        '"""Claims: so many of them."""',
        '"""Claims.\n\nThere are so\nmany of them.\n"""',
        "A = 1  # so many",
        "#: There are so\n#: many.\nA = 1",
        'def make():\n    raise ValueError(f"{1} is told")',
        'A = "Whoever asks"',
    ],
)
def test_a_banned_phrase_is_a_fault_in_docstrings_comments_and_texts(
    tmp_path: Path, source: str
) -> None:
    assert [rule for _, _, rule in check(tmp_path, worker__a_py=source)] == ["banned phrase"]


def test_a_phrase_is_reported_at_the_line_on_which_it_begins(tmp_path: Path) -> None:
    source = '"""Claims.\n\nThere are so\nmany of them.\n"""\n'
    assert check(tmp_path, worker__a_py=source) == [("worker/a.py", 3, "banned phrase")]


def test_names_in_code_and_parts_of_words_are_no_phrases(tmp_path: Path) -> None:
    assert check(tmp_path, worker__a_py="whoever = 1\nA = 'letterset also many'") == []


def test_an_allowed_phrase_may_contain_a_banned_word(tmp_path: Path) -> None:
    source = "# Dead letters have names of letters, digits and dots.\n"
    assert check(tmp_path, worker__a_py=source) == []
    assert len(check(tmp_path, worker__b_py="# Letters and dead letters.\n")) == 1


def test_markdown_is_checked_outside_blocks_of_code(tmp_path: Path) -> None:
    text = "Fine.\n\n```sh\nwhoever\n```\n\nAnd whoever.\n"
    assert check(tmp_path, docs__a_md=text) == [("docs/a.md", 7, "banned phrase")]


def test_other_files_are_checked_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "a.lua").write_text("-- It is\n-- told.\nlocal a = 1\n")
    assert [fault.line for fault in prose.faults(tmp_path, RULES)] == [1]


@pytest.mark.parametrize(
    ("docstring", "is_fault"),
    [
        ("Return it.", False),
        ("Re-read it.", False),
        ("Returns it.", True),
        ("The result.", True),
        ("``x`` as text.", True),
        ("Whether it is.", True),
    ],
)
def test_a_function_docstring_begins_with_an_imperative_verb(
    tmp_path: Path, docstring: str, is_fault: bool
) -> None:
    source = f'def make():\n    """{docstring}"""\n\n\nasync def other():\n    """{docstring}"""\n'
    rules = [rule for _, _, rule in check(tmp_path, worker__a_py=source)]
    assert rules == ["imperative"] * 2 * is_fault


@pytest.mark.parametrize(
    "decorator",
    ["property", "cached_property", "functools.cached_property", "overload", "x.setter"],
)
def test_properties_and_overloads_may_begin_with_a_noun(tmp_path: Path, decorator: str) -> None:
    source = f'class A:\n    """A thing."""\n\n    @{decorator}\n    def b(self):\n        """The b."""\n'
    assert check(tmp_path, worker__a_py=source) == []


def test_classes_and_modules_begin_with_a_noun_phrase(tmp_path: Path) -> None:
    assert check(tmp_path, worker__a_py='"""Claims."""\n\n\nclass A:\n    """A thing."""\n') == []


def test_a_module_is_not_named_for_an_activity(tmp_path: Path) -> None:
    faults = check(tmp_path, worker__fetching_py="", flows__testing_py="", flows__rings_py="")
    assert faults == [("worker/fetching.py", 1, "module name")]


def test_a_class_name_occurs_once_in_worker_and_flows(tmp_path: Path) -> None:
    source = "class A:\n    class Config: ...\n"
    faults = check(
        tmp_path,
        worker__a_py=source,
        flows__b_py="class Other: ...\n\n\n" + source,
        docs__c_py=source,
    )
    assert faults == [("flows/b.py", 4, "class name"), ("worker/a.py", 1, "class name")]


def test_a_class_name_of_an_exempt_path_is_the_fault_of_that_path(tmp_path: Path) -> None:
    source = "class A: ...\n"
    faults = check(tmp_path, worker__a_py=source, worker__web__b_py=source)
    assert faults == [("worker/web/b.py", 1, "class name")]


def test_a_test_is_described_by_its_rule_and_its_texts_are_data(tmp_path: Path) -> None:
    source = """
        @command(idempotent=True)
        def run(self):
            "Whoever asks."

        def test_it():
            "The rule."
            assert "whoever"
    """
    for folder in ("worker", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_draining.py").write_text(dedent(source))
    (tmp_path / "tests" / "a.py").write_text('# Whoever.\ndef b():\n    "The b."\n')
    found = prose.faults(tmp_path, RULES._replace(roots=("worker", "tests")))
    assert Counter((each.path, each.rule) for each in found) == {
        ("worker/test_draining.py", "banned phrase"): 2,
        ("worker/test_draining.py", "imperative"): 2,
        ("worker/test_draining.py", "module name"): 1,
        ("tests/a.py", "banned phrase"): 1,
        ("tests/a.py", "imperative"): 1,
    }


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Return what it has, and what\nthe node was given.", 2),
        ("Whatever it is, and what happens.", 0),
        ("What is a run? It is what a worker plays.", 1),
        ("## What is it?\n\nIt is what `is` here", 0),
        ("Does it say *what it is?* Yes", 0),
        ("What is x.y of Redis 7.0? No", 0),
        ("| What is it | a question? |", 1),
    ],
)
def test_a_relative_noun_clause_is_found_and_a_question_is_none(text: str, count: int) -> None:
    assert len(list(prose.clauses(text))) == count


def test_relative_noun_clauses_have_a_limit_per_root(tmp_path: Path) -> None:
    ten = "What it is. " + "word " * 7
    check(
        tmp_path,
        worker__a_py=f'"""{ten}"""\nA = "{ten}"  # word word\n# What is\n# it is.\n',
        worker__web__b_py=f'"""{ten}"""',
        docs__a_md=f"{ten}\n```\n{ten}\n```\n",
        docs__b_md=f"{ten}{ten}",
        flows__a_py=f'"""{ten}"""',
    )
    [of_docs, of_worker] = map(str, prose.faults(tmp_path, RULES))
    assert of_docs == (
        "docs: relative clauses: 4 in 42 words = 95.24 per 1,000, limit 90.0: "
        "docs/a.md 2, docs/b.md 2"
    )
    assert of_worker == (
        "worker: relative clauses: 2 in 16 words = 125.00 per 1,000, limit 100.0: worker/a.py 2"
    )


def test_long_sentences_are_counted_and_no_fault(tmp_path: Path) -> None:
    long = " ".join(["word"] * 26)
    short = " ".join(["word"] * 24)
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "a.py").write_text(f'"""Claims {short}.\n\nMany {short}. {long}.\n"""\n')
    assert prose.faults(tmp_path, RULES) == []
    assert [(each.path, each.line) for each in prose.long_sentences(tmp_path, RULES)] == [
        ("worker/a.py", 3)
    ]


def test_sections_lists_and_code_end_a_sentence() -> None:
    many = " ".join(["word"] * 20)
    text = f"Return it\n\nArgs:\n    a: {many}\n    b: {many}\n\n- {many}\n- {many}\n"
    assert list(prose.sentences_over(25, text)) == []


def test_exempt_paths_do_not_fail_and_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(tmp_path, worker__web__a_py="# whoever", docs__history_md="whoever", worker__a_py="")
    assert prose.run(tmp_path, RULES, []) == 0
    assert "worker/web/a.py:1" not in capsys.readouterr().out
    assert prose.run(tmp_path, RULES, ["--all"]) == 0
    shown = capsys.readouterr().out
    assert "worker/web" in shown and "banned phrase" in shown and "docs/history.md" in shown


def test_a_fault_fails_and_names_file_line_and_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(tmp_path, worker__a_py="A = 1\n# whoever", worker__webs_py="")
    assert prose.run(tmp_path, RULES, []) == 1
    assert "worker/a.py:2: banned phrase: 'whoever'" in capsys.readouterr().out


def test_an_unknown_argument_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.run(Path(), RULES, ["--everything"]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_rules_of_this_repository_can_be_read() -> None:
    rules = prose.load_rules()
    assert "whoever" in rules.banned and "return" in rules.verbs
    root = Path(prose.__file__).parents[1]
    missing = [path for path in rules.exempt if not (root / path).exists()]
    assert not missing, "remove exempt paths that are gone from tests/prose.toml"
