"""The choice of the next commit to test.

It is the commit that halves the remaining commits, or another commit if that cannot be tested. git
itself weighs the commits (``git rev-list --bisect-vars``), merges included. The way around skipped
commits is git's too. The same outcomes therefore lead to the same commits and the same answer as
with ``git bisect run``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BisectRange:
    """One step of a bisection.

    Attributes:
        commit: The commit to test next; None if no test can tell more.
        left: Number of commits that may be the first bad one, including the known bad one.
        steps: Approximate number of remaining tests, including the next one.
    """

    commit: str | None
    left: int
    steps: int


def read_halving(text: str, bad: str, skipped: Collection[str]) -> BisectRange:
    """Choose the next commit to test from ``git rev-list``'s output.

    The command is ``git rev-list [--bisect-all] --bisect-vars``. The output is about the commits
    between good and ``bad``.
    """
    listed, variables = [], {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if name.startswith("bisect_") and equals:
            variables[name] = value.strip("'")
        elif line and not line.startswith("-"):
            listed.append(line.split()[0])
    best = away_from(skipped, listed, bad) if listed else variables["bisect_rev"]
    left = int(variables["bisect_all"])
    if best == bad:
        return BisectRange(None, left, 0)
    return BisectRange(best, left, int(variables["bisect_steps"]) + 1)


def away_from(skipped: Collection[str], by_halving: Sequence[str], bad: str) -> str:
    """Return the best testable commit for the next test.

    The best commit is taken if it can be tested. If not, its neighbours are likely to fail in the
    same way. A fixed number, derived from how many are left as in git, then leads away from it,
    more often near than far.

    Args:
        by_halving: All candidates including ``bad``, best first.

    Returns:
        ``bad`` itself if no other commit is left.
    """
    if by_halving[0] not in skipped:
        return by_halving[0]
    testable = [commit for commit in by_halving if commit not in skipped]
    spread = ((len(testable) * 1103515245 + 12345) % 2**32 // 65536) % 32768
    index = (len(testable) * spread // 32768) * math.isqrt(spread) // math.isqrt(32768)
    if testable[index] == bad and index > 0:
        index -= 1
    return testable[index]
