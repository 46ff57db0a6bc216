"""The flow ``bisect``: finds the commit that broke something.

The controller chooses the commit that halves the remaining commits. The executor tests it. A run
knows only its inputs, the commits that the inputs named at first, and the verdicts in its history.
Any process may therefore run any round, and a repeated round decides the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from perdure.flows.commands.command import command
from perdure.flows.core.errors import FatalError
from perdure.flows.core.outcomes import Command, Finish
from perdure.flows.library.git.bounds import Bounds
from perdure.flows.library.git.repository import Repository
from perdure.flows.library.git.trials import Trials
from perdure.flows.library.git.verdict import CommitTest, judge
from perdure.flows.library.git.worktree import remove_abandoned, worktrees_root
from perdure.flows.rings.controller_executor import ControllerExecutorFlow
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.registry import register

#: Exit codes of a shell that cannot run the command at all. This is most likely so at every commit.
CANNOT_RUN = (126, 127)

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]


@register("bisect")
class Bisect(ControllerExecutorFlow):
    """Find the first bad commit of a git repository with a test command.

    The answer is the same as from ``git bisect run``.
    """

    description = (
        "Find the first bad commit of a git repository; needs no model. "
        "Runs the given shell command."
    )
    runs_shell = True
    max_rounds = None

    class Inputs(BaseModel):
        """What to bisect."""

        model_config = ConfigDict(extra="forbid")

        repo: Text = Field(
            description="Path of the repository on the workers; a relative path is resolved where "
            "the run is submitted."
        )
        good: Text | Annotated[list[Text], Field(min_length=1)] = Field(
            description="One or more revisions from before the fault; each must be an ancestor of "
            "the bad one."
        )
        bad: Text = Field(description="A revision that has the fault.")
        test: Text = Field(
            description="A shell command, run at the top of a fresh checkout. Exit code 0: good; "
            "125: this commit cannot be tested, skip it; others below 128: bad."
        )
        timeout: float = Field(
            default=300.0,
            gt=0,
            allow_inf_nan=False,
            description="Seconds for one test. A test that takes longer is killed, "
            "and its commit skipped.",
        )

        @field_validator("repo")
        @classmethod
        def _absolute(cls, repo: str) -> str:
            try:
                return str(Path(repo).expanduser().absolute())
            except RuntimeError as error:
                raise ValueError(f"{repo!r} names no home directory of this machine") from error

    def decide(self, context: RoundContext) -> Command | Finish:
        """Choose the next commit to test, or end the bisection. The answer is the first bad commit.

        Raises:
            FatalError: There is nothing to bisect (see ``Bounds.of``), or the test cannot be run.
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
        context.progress(
            trials.tests,
            trials.tests + halving.steps,
            f"{_commits(halving.left)} left, about {_tests(halving.steps)} to go",
        )
        return Command(
            "test_commit",
            {"commit": halving.commit},
            extras={"left": halving.left, "steps": halving.steps},
        )

    @command(idempotent=True)
    def test_commit(self, context: RoundContext, commit: str) -> CommitTest:
        """Test one commit in its own worktree; see ``judge``."""
        inputs = self.Inputs.model_validate(dict(context.inputs))
        root = worktrees_root()
        for name in remove_abandoned(root):
            context.logger.info("removed worktree %s, whose worker process has ended", name)
        left = context.values.get("left")
        context.progress(
            0, None, f"testing {commit[:12]}" + (f", {_commits(left)} left" if left else "")
        )
        repository = Repository.open(inputs.repo)
        return judge(
            repository,
            commit,
            inputs.test,
            root=root,
            timeout=inputs.timeout,
            cancelled=context.cancelled,
        )

    def _bounds(self, context: RoundContext, repository: Repository, inputs: Inputs) -> Bounds:
        """Return the initial good commits and the initial bad commit of the bisection.

        The first round resolves the revisions of the inputs and remembers the commits. Branches may
        move later, but the run keeps these commits.
        """
        remembered = context.values.get("bounds")
        if remembered is not None:
            return Bounds.model_validate(remembered)
        good = [inputs.good] if isinstance(inputs.good, str) else inputs.good
        bounds = Bounds.of(repository, good, inputs.bad)
        context.remember("bounds", bounds)
        return bounds

    def _must_try_a_good_one(self, trials: Trials, bounds: Bounds) -> bool:
        """Return whether to test a good commit next, as git does.

        If the shell cannot run the test command, every commit seems bad. A test of a good commit
        shows whether this is the case. It is done once, after such an exit code at the first test.

        Raises:
            FatalError: The test cannot be run at the good commit either.
        """
        if trials.first_exit not in CANNOT_RUN:
            return False
        if trials.of_good is None:
            return True
        if trials.of_good.exit in CANNOT_RUN:
            raise FatalError(
                f"the test command cannot be run (exit code {trials.of_good.exit}, "
                f"also at the good commit {bounds.good[0]}); "
                f"it runs at the top of a fresh checkout and must be found from there. "
                f"Its last output: {trials.of_good.tail.strip()[-300:]}"
            )
        return False


def _answer(
    repository: Repository, good: list[str], bad: str, left: int, trials: Trials
) -> dict[str, Any]:
    counts = {"tests": trials.tests, "skipped": len(trials.skipped)}
    if left == 1:
        line = repository.line(bad)
        text = (
            f"{bad[:12]} by {line.author} is the first bad commit: "
            f"{line.subject} ({_tests(trials.tests)})"
        )
        return {
            "commit": bad,
            "author": line.author,
            "subject": line.subject,
            **counts,
            "text": text,
        }
    candidates = repository.candidates(bad, good)
    text = (
        f"the first bad commit is one of {_commits(left)}: {bad[:12]} or one before it that "
        f"could not be tested ({_tests(trials.tests)})"
    )
    return {"candidates": candidates, **counts, "text": text}


def _commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def _tests(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"
