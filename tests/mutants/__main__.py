"""``python -m tests.mutants [NAME...] [--against TEST...]``: play mutants of the Lua files; without names, all of them.

A mutant survives when its test passes under it; ``--against`` plays other tests of tests/store (``test_x.py``, ``test_x.py::test_y``)
and tells which kill it, to find the one to name. Exit code 1 where one survives, or a test fails without any mutant.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from tests.mutants.lua import MUTANTS
from tests.mutants.running import play


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--against", nargs="+", default=[], metavar="TEST")
    asked = parser.parse_args(argv)
    unknown = set(asked.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no mutant is named {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in MUTANTS if not asked.names or mutant.name in asked.names]
    alive = [mutant for mutant in chosen if not mutant.equivalent or asked.against]
    fate = play(alive, asked.against)
    for mutant in alive:
        if asked.names or asked.against:
            print(f"{mutant.name}: {fate.killed.get(mutant.name, 'survives')}")
    if fate.survived or fate.broken:
        print(fate.told)
    for name in fate.survived:
        print(f"survives: {name}")
    for test in fate.broken:
        print(f"fails without any mutant: {test}")
    files = ", ".join(f"{file} {count}" for file, count in sorted(Counter(mutant.file for mutant in chosen).items()))
    print(f"mutants of the Lua files: {len(chosen)} ({files})")
    print(f"killed {len(fate.killed)}, survived {len(fate.survived)}, argued equivalent {len(chosen) - len(alive)}")
    return 1 if fate.survived or fate.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
