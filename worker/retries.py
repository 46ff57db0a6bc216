"""How long to wait before a failed round is tried again. Pure."""

from __future__ import annotations


def backoff(failures: int, first: float, longest: float, jitter: float) -> float:
    """Seconds to wait after the ``failures``-th failure in a row: doubling, half of it left to chance.

    Args:
        failures: 1 after the first failure.
        first: the wait after the first failure, before jitter.
        longest: no wait is longer.
        jitter: a number in [0, 1), chance, given by the caller.

    Source: "equal jitter", M. Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
    """
    # 2 ** 1024 overflows a float; long before that the longest wait has been reached.
    full = min(longest, first * 2.0 ** min(failures - 1, 60))
    return full * (0.5 + 0.5 * jitter)
