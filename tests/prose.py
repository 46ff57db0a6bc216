"""The linter of prose and names that ``make check`` runs; its rules are data in ``prose.toml``.

- ``python -m tests.prose`` prints the faults outside the exempt paths, and fails if it finds any.
- ``--all`` also counts the faults in the exempt paths.
- ``--long`` also prints each docstring sentence of more than 25 words.

Banned phrases are searched in docstrings, comments and texts of Python, in Markdown outside blocks
of code, and in all of other files. Relative noun clauses are counted per 1,000 words of a root.
Long sentences are counted and never fail.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

#: Directory with the texts of other people, which npm installs.
OTHERS = "node_modules"
ROOT = Path(__file__).parents[1]
DATA = Path(__file__).with_suffix(".toml")
#: Longest sentence of a docstring, in words (STYLE.md).
LONGEST = 25
#: Directories whose class names must differ.
NAMED = ("worker", "flows")
#: Where three rules do not fit. Texts are data there: what a test sends, and what it expects. A
#: test is named, and described, by the rule that it proves: "A late commit is refused". A module of
#: tests is named for the feature, which may be an activity: ``test_draining``.
TESTS = "tests/"
#: Decorators of a flow's parts. In tests their docstrings are data too: a model reads them, and
#: tests compare them.
OFFERED = {"command", "workflow", "node", "interface", "tool", "function_tool"}
#: A relative clause that stands for a noun: "what it has carried out" for "the finished steps".
CLAUSE = re.compile(r"\bwhat\s+(?:it|was|is|they|he|a|the|each|its)\b", re.IGNORECASE)
#: How a sentence ends: a mark behind its last word, a blank line, a cell's edge, or the text's end.
SENTENCE_END = re.compile(r"([.?!])[\"'*_`)]*(?=\s|$)|\n\s*\n|\||\Z")
#: Between two words of a phrase: space, or the beginning of the next line of a comment.
GAP = r"(?:\s|(?<=\n)[ \t]*(?:#:?|--+)(?=\s))+"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Rules(NamedTuple):
    """The data of the linter.

    Attributes:
        roots: files and directories that are checked.
        suffixes: endings of the files.
        banned: regular expressions of banned phrases.
        allowed: regular expressions of phrases that may contain a banned one.
        properties: decorators whose functions are described by a noun phrase, or elsewhere.
        verbs: imperative verbs with which a function's docstring may begin, in lower case.
        ing_allowed: module names in *-ing* that are nouns.
        exempt: paths that are not rewritten. Their faults are only counted.
        clauses: for each root, the most relative noun clauses per 1,000 words.
    """

    roots: tuple[str, ...]
    suffixes: tuple[str, ...]
    banned: tuple[str, ...]
    allowed: tuple[str, ...]
    properties: tuple[str, ...]
    verbs: tuple[str, ...]
    ing_allowed: tuple[str, ...]
    exempt: tuple[str, ...]
    clauses: Mapping[str, float]


class Fault(NamedTuple):
    """A place that breaks a rule. Line 0 is the whole path."""

    path: str
    line: int
    rule: str
    about: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.rule}: {self.about}"


def load_rules() -> Rules:
    """Return the rules of this repository."""
    data = tomllib.loads(DATA.read_text("utf-8"))
    lists = {name: tuple(data[name]) for name in Rules._fields if name != "clauses"}
    return Rules(**lists, clauses=data["clauses"])


def faults(root: Path, rules: Rules) -> list[Fault]:
    """Return all faults below ``root``, of exempt paths too, sorted by place."""
    found: list[Fault] = []
    classes: dict[str, list[Fault]] = defaultdict(list)
    for path, source in _sources(root, rules):
        passages = list(_passages(path, source))
        found += _banned_phrases(path, passages, rules)
        if path.endswith(".py"):
            tree = ast.parse(source)
            found += [*_verbless(path, tree, rules), *_module_name(path, rules)]
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and path.startswith(NAMED):
                    about = f"another class is named {node.name}, too"
                    classes[node.name].append(Fault(path, node.lineno, "class name", about))
    for places in classes.values():
        # If only one of them is not exempt, the exempt ones have to be renamed.
        own = [place for place in places if not _exemption(place.path, rules)]
        found += [
            place for place in places if len(places) > 1 and (len(own) != 1 or place not in own)
        ]
    return sorted([*found, *_relative_clauses(root, rules)])


def long_sentences(root: Path, rules: Rules) -> list[Fault]:
    """Return the sentences of docstrings with more than 25 words, for a report."""
    return [
        Fault(path, line + offset, "long sentence", sentence)
        for path, source in _sources(root, rules)
        if path.endswith(".py")
        for line, docstring in _docstrings(ast.parse(source))
        for offset, sentence in sentences_over(LONGEST, docstring)
    ]


def sentences_over(most: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield line offset and text of each sentence with more than ``most`` words.

    A blank line, an item of a list and an entry of a section end a sentence.
    """
    blocks = re.split(r"(\n\s*\n|\n\s*(?=[-*] )|\n\s*(?=[*\w][\w.*, ]*: )|(?<=[.?!:])\s+)", text)
    line = 0
    for block in blocks:
        words = re.findall(r"\w[\w.'`-]*", block)
        if len(words) > most:
            yield line, " ".join(block.split())
        line += block.count("\n")


def run(root: Path, rules: Rules, arguments: Sequence[str]) -> int:
    """Print the faults, and what the arguments ask for; return the exit code."""
    if set(arguments) - {"--all", "--long"}:
        print("usage: python -m tests.prose [--all] [--long]", file=sys.stderr)
        return 2
    everything = faults(root, rules)
    failing = [fault for fault in everything if not _exemption(fault.path, rules)]
    for fault in failing:
        print(fault)
    if "--all" in arguments:
        counts = Counter((_exemption(each.path, rules), each.rule) for each in everything)
        for (path, rule), many in sorted(counts.items()):
            if path:
                print(f"exempt {path}: {many} x {rule}")
    long = [
        sentence
        for sentence in long_sentences(root, rules)
        if "--all" in arguments or not _exemption(sentence.path, rules)
    ]
    if "--long" in arguments:
        for sentence in long:
            print(sentence)
    print(f"{len(failing)} faults; {len(long)} docstring sentences over {LONGEST} words (no fault)")
    return int(bool(failing))


def _sources(root: Path, rules: Rules) -> Iterator[tuple[str, str]]:
    for name in rules.roots:
        below = root / name
        paths = [below] if below.is_file() else sorted(below.rglob("*"))
        for path in paths:
            if OTHERS in path.parts:
                continue
            if path.is_file() and path.suffix in rules.suffixes:
                yield path.relative_to(root).as_posix(), path.read_text("utf-8")


def _exemption(path: str, rules: Rules) -> str:
    """Return the exempt path that this path lies in, or an empty text."""
    return next((each for each in rules.exempt if path == each or path.startswith(f"{each}/")), "")


def _passages(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each part in which phrases are searched."""
    if path.endswith(".py"):
        yield from _python_passages(source, texts=not path.startswith(TESTS))
    elif path.endswith(".md"):
        line = 1
        for number, part in enumerate(re.split(r"(?m)^(\s*```.*)$", source)):
            # Parts: text, fence, code, fence, text, ...
            if number % 4 == 0:
                yield line, part
            line += part.count("\n")
    else:
        yield 1, source


def _python_passages(source: str, *, texts: bool) -> Iterator[tuple[int, str]]:
    """Yield comments and texts; without ``texts``, only comments, docstrings and attribute docs."""
    tree = ast.parse(source)
    offered = {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, Function) and _decorators(node) & OFFERED
    }
    prose = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    } - offered
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "COMMENT":
            if comment and token.start[0] != last + 1:
                yield first, "\n".join(comment)
                comment = []
            first = token.start[0] if not comment else first
            last = token.start[0]
            comment.append(token.string)
        elif name in ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE") and (
            texts or token.start[0] in prose
        ):
            yield token.start[0], token.string
    yield first, "\n".join(comment)


def _banned_phrases(path: str, passages: list[tuple[int, str]], rules: Rules) -> Iterator[Fault]:
    banned, allowed = _phrases(rules.banned), _phrases(rules.allowed)
    for first, text in passages:
        excused = [each.span() for each in allowed.finditer(text)] if rules.allowed else []
        for phrase in banned.finditer(text):
            if any(start <= phrase.start() and phrase.end() <= end for start, end in excused):
                continue
            line = first + text.count("\n", 0, phrase.start())
            about = repr(" ".join(re.sub(r"\n\s*(#:?|--+)\s", " ", phrase[0]).lower().split()))
            yield Fault(path, line, "banned phrase", about)


@cache
def _phrases(patterns: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(pattern.replace(" ", GAP) for pattern in patterns)
    return re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)


def _relative_clauses(root: Path, rules: Rules) -> Iterator[Fault]:
    """Yield a fault for each root with more relative noun clauses than its limit."""
    words: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, source in _sources(root, rules):
        name = path.partition("/")[0]
        if name in rules.clauses and not _exemption(path, rules):
            for text in _prose(path, source):
                words[name] += len(text.split())
                counts[name][path] += sum(1 for _ in clauses(text))
    for name, most in rules.clauses.items():
        total = counts[name].total()
        rate = 1000 * total / max(1, words[name])
        if rate > most:
            worst = ", ".join(
                f"{path} {many}" for path, many in counts[name].most_common(5) if many
            )
            about = f"{total} in {words[name]} words = {rate:.2f} per 1,000, limit {most}: {worst}"
            yield Fault(name, 0, "relative clauses", about)


def clauses(text: str) -> Iterator[str]:
    """Yield the beginning of each relative noun clause. A question is none."""
    for phrase in CLAUSE.finditer(text):
        end = SENTENCE_END.search(text, phrase.end())
        if end is None or end[1] != "?":
            yield phrase[0]


def _prose(path: str, source: str) -> Iterator[str]:
    """Yield the docstrings and comments of code, and whole pages."""
    if path.endswith(".py"):
        yield from (docstring for _, docstring in _docstrings(ast.parse(source)))
        comments = (each for _, each in _python_passages(source, texts=False) if each[:1] == "#")
        yield from (re.sub(r"(?m)^#:? ?", "", each) for each in comments)
    elif path.endswith(".lua"):
        yield "\n".join(re.findall(r"(?m)--+ ?(.*)$", source))
    elif path.endswith(".md"):
        yield source


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield node.body[0].lineno, docstring


def _verbless(path: str, tree: ast.Module, rules: Rules) -> Iterator[Fault]:
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        decorators = _decorators(node)
        if decorators & set(rules.properties):
            continue
        if path.startswith(TESTS) and (node.name.startswith("test_") or decorators & OFFERED):
            continue
        docstring = ast.get_docstring(node)
        word = re.match(r"[A-Za-z-]+(?![\w'])", docstring or "")
        if docstring and (word is None or word[0].lower() not in rules.verbs):
            begin = docstring.split()[0]
            about = f"{begin!r} is no imperative verb of {DATA.name}"
            yield Fault(path, node.body[0].lineno, "imperative", about)


def _decorators(node: Function) -> set[str]:
    """Return the last names of a function's decorators."""
    names = (ast.unparse(each).partition("(")[0] for each in node.decorator_list)
    return {each.rpartition(".")[2] for each in names}


def _module_name(path: str, rules: Rules) -> Iterator[Fault]:
    name = Path(path).stem
    if path.startswith(TESTS):
        return
    if name.endswith("ing") and name not in rules.ing_allowed:
        yield Fault(path, 1, "module name", f"{name!r} names an activity; use a noun")


if __name__ == "__main__":
    sys.exit(run(ROOT, load_rules(), sys.argv[1:]))
