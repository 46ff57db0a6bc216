"""How long to wait before a failed round is tried again. Pure."""

from __future__ import annotations


def backoff(failures: int, first: float, longest: float, jitter: float, multiplier: float = 2.0, by_chance: float = 0.5) -> float:
    """Seconds to wait after the ``failures``-th failure in a row: growing, a part of it left to chance.

    Args:
        failures: 1 after the first failure.
        first: the wait after the first failure, before jitter.
        longest: no wait is longer.
        jitter: a number in [0, 1), chance, given by the caller.
        multiplier: by which each wait is longer than the one before.
        by_chance: the part of a wait that is left to chance.

    Source: "equal jitter", M. Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
    """
    # 1000 ** 103 overflows a float; long before that the longest wait has been reached.
    full = min(longest, first * multiplier ** min(failures - 1, 60))
    return full * (1 - by_chance + by_chance * jitter)
