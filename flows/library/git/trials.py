"""The tests of a run so far, read from its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from perdure.flows.core.errors import FatalError
from perdure.flows.core.outcomes import Turn
from perdure.flows.library.git.bounds import Bounds
from perdure.flows.library.git.verdict import CommitTest


@dataclass(frozen=True, slots=True)
class Trials:
    """The results of the tests so far.

    Attributes:
        between: The results for commits between good and bad, in the order of the tests.
        of_good: The result for an initial good commit, which shows whether the test can be run at
            all. None if no good commit was tested.
    """

    between: tuple[CommitTest, ...]
    of_good: CommitTest | None

    @classmethod
    def of(cls, history: Iterable[Turn], bounds: Bounds) -> Trials:
        """Return the test results in a bisection's history.

        Raises:
            FatalError: The observation of a turn is no test result.
        """
        verdicts = []
        for turn in history:
            try:
                verdicts.append(CommitTest.model_validate(turn.observation))
            except ValidationError as error:
                raise FatalError(
                    f"expected a verdict on a commit from {turn.command}, got {turn.observation!r}"
                ) from error
        of_good = [verdict for verdict in verdicts if verdict.commit in bounds.good]
        return cls(
            tuple(verdict for verdict in verdicts if verdict.commit not in bounds.good),
            of_good[0] if of_good else None,
        )

    @property
    def tests(self) -> int:
        """The number of commits tested so far."""
        return len(self.between) + (self.of_good is not None)

    @property
    def first_exit(self) -> int | None:
        """The exit code of the first test between good and bad.

        None if no such test was run yet, or if the test was killed.
        """
        return self.between[0].exit if self.between else None

    @property
    def skipped(self) -> frozenset[str]:
        """The commits that could not be tested."""
        return frozenset(verdict.commit for verdict in self.between if verdict.outcome == "skip")

    def narrowed(self, bounds: Bounds) -> tuple[list[str], str]:
        """Return all known good commits, and the last bad commit.

        The good commits include those of ``bounds``. If no test found a bad commit, the bad commit
        is that of ``bounds``. The first bad commit is the returned one or an ancestor of it.
        """
        good = [verdict.commit for verdict in self.between if verdict.outcome == "good"]
        bad = [verdict.commit for verdict in self.between if verdict.outcome == "bad"]
        return [*bounds.good, *good], bad[-1] if bad else bounds.bad
