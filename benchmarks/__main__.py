"""Measure, print tables, and store figures and plots: ``python -m benchmarks [NAME...]``.

Without names, all parts are measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.parts import PARTS, part
from benchmarks.plots import plot
from benchmarks.report import RESULTS, Options


def main() -> int:
    """Return the exit code: 1 if a part failed, else 0. A missing side is not a failure."""
    listed = "\n".join(f"  {name:10} {about}" for name, about in PARTS.items())
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=listed,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="parts, of those below; all by default"
    )
    parser.add_argument(
        "--passes", type=int, default=5, help="how often each is measured, in turns (default 5)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one short pass, to see that it works; stored apart, since it shows nothing",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="sides by name, as in 'Perdure*'; may be given again",
    )
    parser.add_argument(
        "--into", type=Path, help="directory for the results (default: benchmarks/results)"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    into = given.into or (
        Path(tempfile.mkdtemp(prefix="benchmarks-")) if given.quick or given.only else RESULTS
    )
    options = Options(1 if given.quick else given.passes, given.quick, tuple(given.only), into)
    failed = False
    for name in given.names or PARTS:
        print(f"== {name}: {PARTS[name]}", flush=True)
        measure = part(name)
        if measure is None:
            print(f"missing: there is no benchmarks/{name}.py\n", flush=True)
            continue
        began = time.monotonic()
        try:
            report = measure(options)
        except Exception as error:
            if given.names:
                raise
            # The other parts are still measured.
            print(f"failed: {type(error).__name__}: {error}\n", file=sys.stderr, flush=True)
            failed = True
            continue
        path = report.store(options)
        print(report.text())
        print(
            f"{plot(report, options)}; stored as {path.name} in {into.name}, "
            f"after {time.monotonic() - began:.0f} s\n",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
