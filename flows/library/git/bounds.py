"""The bounds of a bisection. It searches between these commits."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from perdure.flows.core.errors import FatalError
from perdure.flows.library.git.repository import Repository


class Bounds(BaseModel):
    """The full ids of a bisection's initial commits: some good, one bad."""

    good: list[str]
    bad: str

    @classmethod
    def of(cls, repository: Repository, good: Sequence[str], bad: str) -> Bounds:
        """Return the commits to which these revisions resolve now.

        Raises:
            FatalError: A revision names no commit. Or a good commit is the bad commit, or is not an
                ancestor of the bad commit.
        """
        bounds = cls(
            good=list(dict.fromkeys(repository.resolve(revision) for revision in good)),
            bad=repository.resolve(bad),
        )
        for commit in bounds.good:
            if commit == bounds.bad:
                raise FatalError(
                    f"good and bad are the same commit {commit}; "
                    "expected a good commit from before the fault"
                )
            if not repository.is_ancestor(commit, bounds.bad):
                raise FatalError(
                    f"expected good {commit} to be an ancestor of bad {bounds.bad}, "
                    f"but {_instead(repository, commit, bounds.bad)}"
                )
        return bounds


def _instead(repository: Repository, good: str, bad: str) -> str:
    base = repository.merge_base(good, bad)
    if base is None:
        return "they share no history"
    if base == bad:
        return "the bad commit is an ancestor of the good one; are good and bad swapped?"
    return f"their histories diverge at {base}; if that commit is good, pass it as good"
