"""``bisect``: find the commit that broke something, by testing ever the commit that halves what is left.

The controller chooses the commit, the executor tests it. All a run knows are its inputs, the commits they named at
first, and the verdicts in its history; so any process may play any round, and a round played twice decides the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from flows.commands import command
from flows.context import RoundContext
from flows.controller_executor import ControllerExecutorFlow
from flows.errors import FatalError
from flows.library.git.bounds import Bounds
from flows.library.git.repository import Repository
from flows.library.git.trials import Trials
from flows.library.git.verdict import Verdict, judge
from flows.library.git.worktree import remove_abandoned, worktrees_root
from flows.outcomes import Command, Finish
from flows.registry import register

#: Exit codes of a shell that cannot run the command at all; at every commit, most likely.
CANNOT_RUN = (126, 127)

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]


@register("bisect")
class Bisect(ControllerExecutorFlow):
    """Find the first bad commit of a git repository with a test command; answers as ``git bisect run`` does."""

    description = "Find the first bad commit of a git repository; needs no model. Runs the given shell command."
    runs_shell = True
    max_rounds = None

    class Inputs(BaseModel):
        """What to bisect."""

        model_config = ConfigDict(extra="forbid")

        repo: Text = Field(description="Path of the repository as the workers see it; a relative one is taken from where it is submitted.")
        good: Text | Annotated[list[Text], Field(min_length=1)] = Field(
            description="A revision, or several, from before the fault; each an ancestor of the bad one."
        )
        bad: Text = Field(description="A revision that has the fault.")
        test: Text = Field(
            description="A shell command, run at the top of a fresh checkout. Exit code 0: good; 125: this commit cannot be tested, "
            "skip it; others below 128: bad."
        )
        timeout: float = Field(
            default=300.0,
            gt=0,
            allow_inf_nan=False,
            description="Seconds for one test; one that takes longer is killed and its commit skipped.",
        )

        @field_validator("repo")
        @classmethod
        def _absolute(cls, repo: str) -> str:
            try:
                return str(Path(repo).expanduser().absolute())
            except RuntimeError as error:
                raise ValueError(f"{repo!r} names no home directory of this machine") from error

    def decide(self, context: RoundContext) -> Command | Finish:
        """Choose the next commit to test, or name the first bad one.

        Raises:
            FatalError: there is nothing to bisect, or the test cannot be run; see ``Bounds.of``.
        """
        inputs = self.Inputs.model_validate(dict(context.inputs))
        repository = Repository.open(inputs.repo)
        bounds = self._bounds(context, repository, inputs)
        trials = Trials.of(context.history, bounds)
        if self._must_try_a_good_one(trials, bounds):
            return Command("test_commit", {"commit": bounds.good[0]})
        good, bad = trials.narrowed(bounds)
        halving = repository.halve(bad, good, trials.skipped)
        context.remember("left", halving.left)
        context.remember("steps", halving.steps)
        if halving.commit is None:
            return Finish(_answer(repository, good, bad, halving.left, trials))
        context.progress(trials.tests, trials.tests + halving.steps, f"{_commits(halving.left)} left, about {_tests(halving.steps)} to go")
        return Command("test_commit", {"commit": halving.commit}, extras={"left": halving.left, "steps": halving.steps})

    @command(idempotent=True)
    def test_commit(self, context: RoundContext, commit: str) -> Verdict:
        """Test one commit in a worktree of its own; see ``judge``."""
        inputs = self.Inputs.model_validate(dict(context.inputs))
        root = worktrees_root()
        for name in remove_abandoned(root):
            context.logger.info("removed worktree %s, whose owner is dead", name)
        left = context.values.get("left")
        context.progress(0, None, f"testing {commit[:12]}" + (f", {_commits(left)} left" if left else ""))
        repository = Repository.open(inputs.repo)
        return judge(repository, commit, inputs.test, root=root, timeout=inputs.timeout, cancelled=context.cancelled)

    def _bounds(self, context: RoundContext, repository: Repository, inputs: Inputs) -> Bounds:
        """The commits that the revisions named in the first round: branches may move later, the run's bounds do not."""
        remembered = context.values.get("bounds")
        if remembered is not None:
            return Bounds.model_validate(remembered)
        good = [inputs.good] if isinstance(inputs.good, str) else inputs.good
        bounds = Bounds.of(repository, good, inputs.bad)
        context.remember("bounds", bounds)
        return bounds

    def _must_try_a_good_one(self, trials: Trials, bounds: Bounds) -> bool:
        """A test that the shell cannot run would call every commit bad; so see whether a good one differs, as git does."""
        if trials.first_exit not in CANNOT_RUN:
            return False
        if trials.of_good is None:
            return True
        if trials.of_good.exit in CANNOT_RUN:
            raise FatalError(
                f"the test command cannot be run (exit code {trials.of_good.exit}, also at the good commit {bounds.good[0]}); "
                f"it runs at the top of a fresh checkout and must be found from there. Its last words: {trials.of_good.tail.strip()[-300:]}"
            )
        return False


def _answer(repository: Repository, good: list[str], bad: str, left: int, trials: Trials) -> dict[str, Any]:
    counts = {"tests": trials.tests, "skipped": len(trials.skipped)}
    if left == 1:
        line = repository.line(bad)
        text = f"{bad[:12]} by {line.author} is the first bad commit: {line.subject} ({_tests(trials.tests)})"
        return {"commit": bad, "author": line.author, "subject": line.subject, **counts, "text": text}
    candidates = repository.candidates(bad, good)
    text = f"the first bad commit is one of {_commits(left)}: {bad[:12]} or one before it that could not be tested ({_tests(trials.tests)})"
    return {"candidates": candidates, **counts, "text": text}


def _commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def _tests(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"
