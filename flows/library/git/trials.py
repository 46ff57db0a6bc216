"""The tests that a run has made so far, read from its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from flows.errors import FatalError
from flows.library.git.bounds import Bounds
from flows.library.git.verdict import Verdict
from flows.outcomes import Turn


@dataclass(frozen=True, slots=True)
class Trials:
    """Verdicts in the order of the tests.

    Attributes:
        between: those of commits between good and bad.
        of_good: that of a good commit, tested to see whether the test can be run at all.
    """

    between: tuple[Verdict, ...]
    of_good: Verdict | None

    @classmethod
    def of(cls, history: Iterable[Turn], bounds: Bounds) -> Trials:
        """The verdicts in a run's history.

        Raises:
            FatalError: a turn holds something else: the command failed in a way that testing again will not mend.
        """
        verdicts = []
        for turn in history:
            try:
                verdicts.append(Verdict.model_validate(turn.observation))
            except ValidationError as error:
                raise FatalError(f"expected the verdict on a commit from {turn.command}, but it came to {turn.observation!r}") from error
        known = [verdict for verdict in verdicts if verdict.commit in bounds.good]
        return cls(tuple(verdict for verdict in verdicts if verdict.commit not in bounds.good), known[0] if known else None)

    @property
    def tests(self) -> int:
        """How many tests were run."""
        return len(self.between) + (self.of_good is not None)

    @property
    def first_exit(self) -> int | None:
        """Exit code of the first test; None before it, or if its time was over."""
        return self.between[0].exit if self.between else None

    @property
    def skipped(self) -> frozenset[str]:
        """The commits that cannot be tested."""
        return frozenset(verdict.commit for verdict in self.between if verdict.outcome == "skip")

    def narrowed(self, bounds: Bounds) -> tuple[list[str], str]:
        """What is known good now, and the bad commit found last; it contains the first bad one."""
        good = [verdict.commit for verdict in self.between if verdict.outcome == "good"]
        bad = [verdict.commit for verdict in self.between if verdict.outcome == "bad"]
        return [*bounds.good, *good], bad[-1] if bad else bounds.bad
