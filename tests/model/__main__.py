"""``python -m tests.model``: the whole model, by hand. Prints a line a configuration, and a line a mutant.

``--wide`` adds the wide configurations, ``--no-mutants`` leaves the mutants out; names of configurations choose among them.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.model import budgets, generations
from tests.model.configurations import CONFIGURATIONS, WIDE
from tests.model.mutants import EQUIVALENT, MUTANTS, search
from tests.model.rules import Rules
from tests.model.search import Search
from tests.model.telling import story


def main() -> int:
    """Search; the exit code says whether the protocol holds and every mutant is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("names", nargs="*", help="configurations; all of them where none is named")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--no-mutants", action="store_true")
    given = parser.parse_args()
    chosen = CONFIGURATIONS | (
        {f"{name}, wide": config for name, config in WIDE.items()} if given.wide else {}
    )
    failed = states = moves = 0
    for name, config in chosen.items():
        if given.names and name not in given.names:
            continue
        began = time.process_time()
        searched = Search(config)
        found = searched.run()
        states, moves = states + found.states, moves + found.moves
        print(
            f"{name:24} {found.states:9,} states {found.moves:11,} moves {time.process_time() - began:7.1f} s",
            flush=True,
        )
        if found.violation is not None:
            failed += 1
            print(f"  {found.violation}\n{story(config, Rules(), found.start, found.trace)}")
    if not given.names or budgets.NAME in given.names:
        began = time.process_time()
        tree = budgets.search()
        states, moves = states + tree.states, moves + tree.moves
        failed += tree.violation is not None
        print(
            f"{budgets.NAME:24} {tree.states:9,} states {tree.moves:11,} moves {time.process_time() - began:7.1f} s",
            *([tree.violation, tree.trace] if tree.violation else []),
        )
    for name, shape in generations.SHAPES.items():
        if given.names and name not in given.names:
            continue
        began = time.process_time()
        family = generations.search(shape)
        states, moves = states + family.states, moves + family.moves
        failed += family.violation is not None
        print(
            f"{name:24} {family.states:9,} states {family.moves:11,} moves {time.process_time() - began:7.1f} s",
            *([family.violation, family.trace] if family.violation else []),
            flush=True,
        )
    print(f"{'together':24} {states:9,} states {moves:11,} moves, {failed} violations")
    return int(bool(failed) | (0 if given.no_mutants else _mutants()))


def _mutants() -> bool:
    survived = 0
    for mutant in MUTANTS:
        found = search(mutant.rule, mutant.configuration)
        killed = found.violation is not None and found.violation.law == mutant.law
        survived += not killed
        print(
            f"{'killed' if killed else 'SURVIVED'} {mutant.rule}: {len(found.trace)} moves, {found.states} states; {found.violation}"
        )
    for rule, law in budgets.MUTANTS.items():
        tree = budgets.search(budgets.without(rule))
        killed = tree.violation is not None and tree.violation.law == law
        survived += not killed
        print(f"{'killed' if killed else 'SURVIVED'} {rule}: {tree.trace}; {tree.violation}")
    for rule, (name, law) in generations.MUTANTS.items():
        family = generations.search(generations.SHAPES[name], generations.without(rule))
        killed = family.violation is not None and family.violation.law == law
        survived += not killed
        print(f"{'killed' if killed else 'SURVIVED'} {rule}: {family.trace}; {family.violation}")
    for rule, configuration in EQUIVALENT.items():
        found = search(rule, configuration)
        survived += found.violation is not None
        print(
            f"{'equivalent' if found.violation is None else 'NOT EQUIVALENT'} {rule}: {found.states} states; {found.violation}"
        )
    print(
        f"{len(MUTANTS) + len(budgets.MUTANTS) + len(generations.MUTANTS)} mutants, {len(EQUIVALENT)} equivalent rules, "
        f"{survived} not as they should be"
    )
    return survived > 0


if __name__ == "__main__":
    sys.exit(main())
