"""``python -m tests.trials``: promises of the designs at their full size, which CI has no time for.

Examples:
  python -m tests.trials --list             what there is
  python -m tests.trials families held      these two
  python -m tests.trials --small            all of them, at sizes of some seconds
  python -m tests.trials topics --size 500  at another size

Each prints what it found, and whether the promise was kept. Exit code 1 if one was not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from tests.trials.catalog import TRIALS


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trials",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="trials; all by default")
    parser.add_argument("--list", action="store_true", help="only list the trials")
    parser.add_argument("--small", action="store_true", help="at sizes of some seconds")
    parser.add_argument("--size", type=int, help="at this size")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    asked = parser.parse_args(argv)
    if unknown := set(asked.names) - set(TRIALS):
        parser.error(
            f"no trial is named {', '.join(sorted(unknown))}; there are {', '.join(TRIALS)}"
        )
    if asked.list:
        for name, trial in TRIALS.items():
            print(f"{name:24} {trial.size:>6,}  {trial.promise}")
        return 0
    broken = 0
    for name in asked.names or TRIALS:
        trial = TRIALS[name]
        size = asked.size or (trial.small if asked.small else trial.size)
        began = time.monotonic()
        found = trial.play(size)
        seconds = time.monotonic() - began
        kept = found.kept and found.in_time
        broken += not kept
        if asked.json:
            told = {"trial": name, "size": size, "seconds": round(seconds, 1), "found": found.text}
            print(json.dumps({**told, "kept": found.kept, "in_time": found.in_time}), flush=True)
        else:
            word = "kept" if kept else "NOT IN TIME" if found.kept else "NOT KEPT"
            print(f"{name} · {word} · {found.text} ({seconds:.0f} s)", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
