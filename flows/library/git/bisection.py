"""The choice of the next commit to test.

It is the commit that halves the remaining commits, or a different commit if that one cannot be
tested. git itself weighs the commits (``git rev-list --bisect-vars``), merges included. Skipped
commits are avoided in the same way as in git. So the same outcomes lead to the same commits and the
same answer as with ``git bisect run``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BisectRange:
    """One step of a bisection.

    Attributes:
        commit: The commit to test next; None if no further test can narrow the search.
        left: Number of commits that may be the first bad one, including the known bad one.
        steps: Approximate number of remaining tests, including the next one.
    """

    commit: str | None
    left: int
    steps: int


def read_halving(text: str, bad: str, skipped: Collection[str]) -> BisectRange:
    """Choose the next commit to test from ``git rev-list``'s output.

    Args:
        text: the output of ``git rev-list [--bisect-all] --bisect-vars`` for the commits between
            the good commits and ``bad``. With skipped commits, it must be of ``--bisect-all``.
        skipped: the commits that could not be tested.
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
    """Return the next commit to test. Skipped commits are avoided.

    It is the best commit, unless that commit is skipped. Then its neighbours in the list are likely
    to be untestable, too. So a pseudo-random commit among those not skipped is returned, more often
    near the beginning of the list than far. As in git, the choice depends only on their number.

    Args:
        by_halving: All candidates including ``bad``, best first.

    Returns:
        The commit. It is ``bad`` itself if no other commit is left.
    """
    if by_halving[0] not in skipped:
        return by_halving[0]
    testable = [commit for commit in by_halving if commit not in skipped]
    spread = ((len(testable) * 1103515245 + 12345) % 2**32 // 65536) % 32768
    index = (len(testable) * spread // 32768) * math.isqrt(spread) // math.isqrt(32768)
    if testable[index] == bad and index > 0:
        index -= 1
    return testable[index]
