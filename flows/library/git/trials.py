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
    """Verdicts in the order of the tests.

    Attributes:
        between: The verdicts on commits between good and bad.
        of_good: The verdict on a good commit, which shows whether the test can be run at all. None
            if there was no such test.
    """

    between: tuple[CommitTest, ...]
    of_good: CommitTest | None

    @classmethod
    def of(cls, history: Iterable[Turn], bounds: Bounds) -> Trials:
        """Return the test results in a bisection's history.

        Raises:
            FatalError: A turn has no verdict, because the test command failed in a way that another
                attempt does not mend.
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
        """The exit code of the first test between good and bad. None if killed or not run yet."""
        return self.between[0].exit if self.between else None

    @property
    def skipped(self) -> frozenset[str]:
        """The commits that a bisection could not test."""
        return frozenset(verdict.commit for verdict in self.between if verdict.outcome == "skip")

    def narrowed(self, bounds: Bounds) -> tuple[list[str], str]:
        """Return the known good commits, and the last bad one.

        The history of the last bad commit contains the first bad one.
        """
        good = [verdict.commit for verdict in self.between if verdict.outcome == "good"]
        bad = [verdict.commit for verdict in self.between if verdict.outcome == "bad"]
        return [*bounds.good, *good], bad[-1] if bad else bounds.bad
