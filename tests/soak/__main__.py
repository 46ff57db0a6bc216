"""``python -m tests.soak``: a soak by hand; its report on standard output."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from tests.soak.collect import save
from tests.soak.comparison import compare
from tests.soak.faults import ALL, GROUND, WORKERS
from tests.soak.figures import figures
from tests.soak.report import text
from tests.soak.soak import Plan, soak

#: The longest time for which plain Celery is killed; then it takes two minutes more to see the
#: messages that it never brings back.
PLAIN_SECONDS = 180.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--quiet",
        type=float,
        default=60.0,
        help="seconds after the faults in which all runs must complete",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="decides every fault and its time; a new one by default",
    )
    parser.add_argument("--runs", type=int, default=0, help="by default 200 in three minutes")
    parser.add_argument(
        "--only", default=None, help=f"kinds of fault, comma-separated, of: {', '.join(ALL)}"
    )
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--no-plain", action="store_true", help="leave out plain Celery")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--history",
        type=Path,
        default=None,
        help="keep the history here; one that is not well is kept in any case",
    )
    options = parser.parse_args()
    kinds = {"workers": WORKERS, "ground": GROUND}
    if options.only or options.no_faults:
        wanted = [] if options.no_faults else [ALL[name] for name in options.only.split(",")]
        kinds = {
            lane: tuple(kind for kind in each if kind in wanted) for lane, each in kinds.items()
        }
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    outcome = soak(Plan(seed, options.minutes * 60, options.quiet, options.runs, kinds=kinds))
    if options.history is not None or not outcome.well:
        kept = save(
            outcome.history, options.history or Path(tempfile.gettempdir()) / f"soak-{seed}.json"
        )
        print(f"The history is kept in {kept}", file=sys.stderr)
    told = figures(outcome)
    if not options.no_plain and not options.no_faults:
        seconds = min(outcome.plan.chaos, PLAIN_SECONDS)
        plain = compare(
            seed,
            seconds,
            round(outcome.plan.submitted * seconds / outcome.plan.chaos),
            outcome.plan.rounds,
        )
        told["plain_celery"] = plain.figures()
    print(json.dumps(told, indent=2) if options.json else text(told))
    return 0 if outcome.well else 1


if __name__ == "__main__":
    sys.exit(main())
