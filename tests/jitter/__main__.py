"""``python -m tests.jitter``: play tests undisturbed and under faults, and list changed verdicts.

Most faults are a pause of each process that runs rounds, at one place of a run's first rounds. With
the others, tests look late at what they wait for, are played in a random order, or all cores are
busy. A test whose verdict changes waits for a time where it should wait for an event, or relies on
a test before it.

Examples:
  python -m tests.jitter --list                                what there is
  python -m tests.jitter                                       the quick tiers, under each fault
  python -m tests.jitter tests/e2e/test_waits.py               one file
  python -m tests.jitter --faults late-looks,load+behind-claim tests/e2e -k stop
  python -m tests.jitter --repeat 10 --faults load -n 4 --dist loadfile

Other arguments are pytest's. Without -m, slow tests are left out. The pauses are counted; a fault
without any is an error. Tests that fail undisturbed are reported apart, as flaky.

Exit code 1 if a verdict changed, 2 if the tests could not be played or a fault did not happen.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence

from tests.jitter.comparison import Result, find_changes, find_flaky
from tests.jitter.execution import TEXT_LINES, NotPlayed, Pass, play
from tests.jitter.faults import FAULTS, SINGLE, UNDISTURBED, Fault, parse_faults, read_pace

#: pytest's selection of the quick tiers.
QUICK = ("-m", "not slow")
#: What pytest is always run with: no cache, since a pass must not depend on the one before.
ALWAYS = ("-q", "-p", "no:cacheprovider")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.jitter",
        usage="%(prog)s [--faults A,B] [--repeat N] [--json] [--list] [PYTEST ARGUMENT ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument(
        "--faults",
        default=",".join(SINGLE),
        metavar="A,B",
        help="faults to play; '+' joins those to play together (default: each by itself)",
    )
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="play everything N times"
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON document")
    asked, arguments = parser.parse_known_args(argv)
    if asked.list:
        for name, fault in FAULTS.items():
            print(f"{name:20} {fault.about}")
        return 0
    try:
        faults = parse_faults(asked.faults)
    except ValueError as error:
        parser.error(str(error))
    try:
        undisturbed, results = play_all(faults, complete(arguments), asked.repeat)
    except NotPlayed as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    flaky = find_flaky(undisturbed)
    if asked.json:
        print(json.dumps({"flaky": flaky, "faults": [each.to_json() for each in results]}))
    else:
        report(results, flaky)
    return 1 if any(result.changes for result in results) else 0


def complete(arguments: Sequence[str]) -> list[str]:
    """Return pytest's arguments. Slow tests are left out unless ``-m`` selects them."""
    selects = any(each.startswith("-m") for each in arguments)
    return [*ALWAYS, *(() if selects else QUICK), *(each for each in arguments if each != "--")]


def play_all(
    faults: Sequence[Fault], arguments: Sequence[str], repeat: int
) -> tuple[list[Pass], list[Result]]:
    """Play the tests undisturbed and under each fault, in turn, and return what became of them."""
    undisturbed: list[Pass] = []
    passes: dict[str, list[Pass]] = {fault.name: [] for fault in faults}
    for number in range(1, repeat + 1):
        undisturbed.append(play(UNDISTURBED, arguments, show))
        show(f"{UNDISTURBED.name}: {summarize(Result(UNDISTURBED, undisturbed[-1:], []))}")
        for fault in faults:
            played = play(fault, arguments, show, number)
            passes[fault.name].append(played)
            changes = find_changes(undisturbed, [played], list(read_pace()))
            show(f"{fault.name}: {summarize(Result(fault, [played], changes))}")
    results = [Result(UNDISTURBED, undisturbed, [])]
    for fault in faults:
        changes = find_changes(undisturbed, passes[fault.name], list(read_pace()))
        results.append(Result(fault, passes[fault.name], changes))
    return undisturbed, results


def show(line: str) -> None:
    """Print a line of progress, apart from the report."""
    print(line, file=sys.stderr, flush=True)


def summarize(result: Result) -> str:
    """Return the figures of a fault as one line."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in result.counts.items())
    parts = [verdicts, f"{result.seconds:.0f} s"]
    if result.fault.pauses:
        parts.insert(1, f"{result.pauses.total()} pauses in {result.processes} processes")
    return " · ".join([*parts, f"{len(result.changes)} changed"])


def report(results: Sequence[Result], flaky: Mapping[str, Sequence[str]]) -> None:
    """Print the table of the faults, the changed verdicts and the flaky tests."""
    row = "{:28} {:>7} {:>7} {:>7} {:>8} {:>7} {:>9} {:>6}"
    names = ("fault", "passed", "failed", "skipped", "seconds", "pauses", "processes", "changed")
    print(row.format(*names))
    for result in results:
        counts = result.counts
        failed = counts["failed"] + counts["unfinished"]
        print(
            row.format(
                result.fault.name,
                counts["passed"],
                failed,
                counts["skipped"],
                f"{result.seconds:.1f}",
                result.pauses.total(),
                result.processes,
                len(result.changes),
            )
        )
    for result in results:
        for change in result.changes:
            print(f"\n{result.fault.name}: {change.test}: {change.before}, now {change.under}")
            for line in change.text.splitlines()[-TEXT_LINES:]:
                print(f"    {line}")
    for test, verdicts in flaky.items():
        print(f"\nflaky without any fault: {test}: {', '.join(verdicts)}")


if __name__ == "__main__":
    # SIGTERM ends pytest and its servers, too, as Ctrl-C does. A background job ignores Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
