"""Which commit to test next: the one that halves what is left, or one away from the commits that cannot be tested.

git itself weighs the commits (``git rev-list --bisect-vars``), merges included, and the way around skipped commits
is git's too. So the same outcomes lead to the same commits, and to the same answer, as ``git bisect run``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Halving:
    """One step of a bisection.

    Attributes:
        commit: to be tested next; None when no test can tell more.
        left: number of commits that may be the first bad one, the known bad one among them.
        steps: about how many tests are to go, the next one included.
    """

    commit: str | None
    left: int
    steps: int


def read_halving(text: str, bad: str, skipped: Collection[str]) -> Halving:
    """Read what ``git rev-list [--bisect-all] --bisect-vars`` printed for the commits between good and ``bad``."""
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
        return Halving(None, left, 0)
    return Halving(best, left, int(variables["bisect_steps"]) + 1)


def away_from(skipped: Collection[str], by_halving: Sequence[str], bad: str) -> str:
    """The commit to test where some cannot be tested; ``bad`` itself when none is left.

    The best one is taken if it can be tested. If not, its neighbours are likely to fail in the same way, so a
    fixed number derived from how many are left (the same as git's) leads away from it, more often near than far.

    Args:
        by_halving: all candidates, ``bad`` among them, best first.
    """
    if by_halving[0] not in skipped:
        return by_halving[0]
    testable = [commit for commit in by_halving if commit not in skipped]
    spread = ((len(testable) * 1103515245 + 12345) % 2**32 // 65536) % 32768
    index = (len(testable) * spread // 32768) * math.isqrt(spread) // math.isqrt(32768)
    if testable[index] == bad and index > 0:
        index -= 1
    return testable[index]
