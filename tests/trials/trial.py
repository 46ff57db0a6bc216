"""Trial: a promise of a design, played at its full size, and the resulting figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """The findings of a trial.

    Args:
        text: In words and numbers.
        kept: Whether what the promise says of results was kept, on any machine.
        in_time: Whether what it says of seconds was kept, which takes a quiet machine.
    """

    text: str
    kept: bool
    in_time: bool = True


@dataclass(frozen=True)
class Trial:
    """A promise and how it is tried.

    Args:
        promise: The promise, in a sentence.
        size: The promise's own size, in units of the trial.
        small: A size for seeing in some seconds that the trial works.
        play: Plays it at a size.
    """

    promise: str
    size: int
    small: int
    play: Callable[[int], Figures]


def show_progress(done: int, of: int, text: str) -> None:
    """Print the progress of a long trial, ten times in all, apart from its result."""
    if done and not done % max(1, of // 10):
        print(f"  {done} of {of}: {text}", file=sys.stderr, flush=True)
