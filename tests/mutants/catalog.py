"""The facts about the mutants: the rules and guards of each file, the faults written by hand, and
the equivalent mutants.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Source, sources
from tests.mutants.syntax import tokens_of

HERE = Path(__file__).parent


class RottenMutant(Exception):
    """The statement that a mutant of by_hand.toml changes is missing, or occurs more than once."""


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text("utf-8"))


@cache
def rules() -> dict[str, dict[str, list[str]]]:
    """Return, by Lua file and test file, the rules that the one keeps and the other guards."""
    return read("rules.toml")


def guards(file: str) -> list[str]:
    """Return the test files that guard a Lua file, files with most rules first."""
    return list(rules()[file])


@cache
def equivalent() -> dict[str, str]:
    """Return, by name, why no test can tell a mutant from the original."""
    groups = read("equivalent.toml")["equivalent"]
    return {name: group["reason"] for group in groups for name in group["mutants"]}


def patched(source: Source, name: str, old: str, new: str) -> Mutant:
    """Return the mutant that has ``new`` where the source has the tokens of ``old``, exactly once.

    Raises:
        RottenMutant: they are not there once.
    """
    wanted = [token.text for token in tokens_of(old)]
    texts = [token.text for token in source.tokens]
    places = [at for at in range(len(texts)) if texts[at : at + len(wanted)] == wanted]
    if len(places) != 1:
        raise RottenMutant(
            f"{name}: expected once in {source.file}.lua, came {len(places)} times: {old!r}"
        )
    start, end = source.span(places[0], places[0] + len(wanted))
    return Mutant(f"{source.file}:by_hand:{name}", source.file, source.changed([(start, end, new)]))


@cache
def mutants() -> tuple[Mutant, ...]:
    """Return all mutants: the operators' mutants of each file, then the faults written by hand."""
    found = sources()
    of_file = {source.file: source for source in found}
    made = chain.from_iterable(source.mutants() for source in found)
    by_hand = (
        patched(of_file[fault["file"]], fault["name"], fault["old"], fault["new"])
        for fault in read("by_hand.toml")["mutant"]
    )
    return (*made, *by_hand)


def sample(chosen: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return ``size`` mutants, the same ones for the same seed: one of each file first, then any.

    A mutant that comes or goes moves hardly another into the sample or out of it.
    """

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    shuffled = sorted(chosen, key=place)
    first = {mutant.file: mutant for mutant in reversed(shuffled)}
    others = [mutant for mutant in shuffled if first[mutant.file] is not mutant]
    taken = {mutant.name for mutant in [*sorted(first.values(), key=place), *others][:size]}
    return [mutant for mutant in chosen if mutant.name in taken]
