"""``python -m tests.mutants``: play mutants of the Lua files, and show those that survive.

Examples:
  python -m tests.mutants --list --file claim_round     what there is
  python -m tests.mutants --sample 60 --seed 1          some of all files
  python -m tests.mutants --file parts/grant            all of a file
  python -m tests.mutants --all                         all, in some hours
  python -m tests.mutants claim_round:main:never        those whose names begin so

Each runs against the test files that rules.toml names for its file. Exit code 1 if one survives,
2 if a test fails without any mutant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.mutants import catalog, execution
from tests.mutants.mutant import Mutant


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--all", action="store_true", help="play all mutants")
    parser.add_argument("--file", action="append", default=[], help="play the mutants of this file")
    parser.add_argument("--sample", type=int, metavar="N", help="play this many of them")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which ones (default 1)")
    parser.add_argument(
        "--against", nargs="+", default=[], metavar="TEST", help="tests instead of the guards"
    )
    parser.add_argument(
        "--wide", action="store_true", help="play survivors against all of tests/store"
    )
    asked = parser.parse_args(argv)
    if not (asked.list or asked.all or asked.names or asked.file or asked.sample):
        parser.error("expected --list, --all, --sample, --file or a NAME")
    unknown = set(asked.file) - set(catalog.rules())
    if unknown:
        parser.error(f"no Lua file is named {', '.join(sorted(unknown))}")
    chosen = [
        mutant
        for mutant in catalog.mutants()
        if (not asked.file or mutant.file in asked.file)
        and (not asked.names or is_named(mutant.name, asked.names))
    ]
    if not chosen:
        parser.error(f"no mutant's name begins with {' or '.join(asked.names)}")
    if asked.sample:
        chosen = catalog.sample(chosen, asked.sample, asked.seed)
    if asked.list:
        for mutant in chosen:
            reason = catalog.equivalent().get(mutant.name)
            print(mutant.name, f"(equivalent: {reason})" if reason else "")
            print(mutant.diff())
        print(f"{len(chosen)} mutants")
        return 0
    return play(chosen, asked.against, wide=asked.wide)


def is_named(name: str, asked: Sequence[str]) -> bool:
    """Return whether a mutant was asked for, by its name or by the beginning of several."""
    exact = {mutant.name for mutant in catalog.mutants()}
    return any(name == one or (one not in exact and name.startswith(one)) for one in asked)


def play(chosen: Sequence[Mutant], against: Sequence[str], *, wide: bool) -> int:
    """Play mutants one by one; return the exit code."""
    alive = [mutant for mutant in chosen if mutant.name not in catalog.equivalent()]
    execution.preload()
    used = against or list(dict.fromkeys(test for m in alive for test in catalog.guards(m.file)))
    if used and (unharmed := execution.run(None, used)).killer:
        print(f"{unharmed.output}\nfails without any mutant: {unharmed.killer}")
        return 2
    survivors, strays = [], 0
    for mutant in alive:
        tests = against or catalog.guards(mutant.file)
        killer = execution.run(mutant, tests).killer
        if not killer and wide:
            others = [path.name for path in sorted(execution.STORE.glob("test_*.py"))]
            killer = execution.run(mutant, [name for name in others if name not in tests]).killer
            strays += bool(killer)
            killer = killer and f"{killer} (no guard of this file)"
        print(f"{mutant.name}: {killer or 'SURVIVES'}", flush=True)
        if not killer:
            print(mutant.diff(), flush=True)
            survivors.append(mutant.name)
    print(
        f"{len(chosen)} mutants of the Lua files: {len(alive) - len(survivors)} killed"
        f"{f' ({strays} by a test that is no guard of the file)' if strays else ''}, "
        f"{len(survivors)} survived, {len(chosen) - len(alive)} equivalent"
    )
    for name in survivors:
        print(f"survives: {name}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
