"""The test of one commit.

``judge`` checks the commit out in a new worktree, runs the shell command there and interprets the
exit code.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.executors.subprocesses import ProcessEnding, run_watched
from perdure.flows.library.git.environment import clean_environment
from perdure.flows.library.git.repository import Repository
from perdure.flows.library.git.worktree import Worktree, own_worktree

#: The exit code of a test for "this commit cannot be tested", as for ``git bisect run``.
SKIP = 125


class CommitTest(BaseModel):
    """The result of one commit's test.

    Attributes:
        exit: The test's exit code; None if the test was killed at its time limit.
        seconds: How long the test ran.
        tail: The end of the test's output.
    """

    commit: str
    outcome: Literal["good", "bad", "skip"]
    exit: int | None
    seconds: float
    tail: str


def judge(
    repository: Repository,
    commit: str,
    test: str,
    *,
    root: Path,
    timeout: float,
    cancelled: threading.Event,
) -> CommitTest:
    """Run a test command at one commit, in a new worktree.

    The worktree is under ``root``. The repository does not change, and no files remain. Exit code 0
    is good, 125 skips, others up to 127 are bad, as for ``git bisect run``. A test that still runs
    after ``timeout`` seconds is killed. Its commit is skipped, because a timeout does not show
    whether the commit is good or bad.

    Raises:
        FatalError: The test ended with exit code 128 or more, or by a signal. The test itself is
            broken; git stops too.
        RetryableError: The commit could not be checked out.
        RoundStopped: ``cancelled`` was set.
    """
    with own_worktree(root) as worktree:
        _check_out(repository, commit, worktree, cancelled)
        ending = run_watched(
            ["sh", "-c", test],
            worktree.path,
            clean_environment(),
            mark=worktree.mark,
            timeout=timeout,
            cancelled=cancelled,
        )
    return CommitTest(
        commit=commit,
        outcome=_outcome(commit, ending),
        exit=ending.exit,
        seconds=ending.seconds,
        tail=ending.tail,
    )


def _outcome(commit: str, ending: ProcessEnding) -> Literal["good", "bad", "skip"]:
    if ending.exit is None or ending.exit == SKIP:
        return "skip"
    if ending.exit < 0 or ending.exit >= 128:
        how = (
            f"was killed by signal {-ending.exit}"
            if ending.exit < 0
            else f"ended with exit code {ending.exit}"
        )
        raise FatalError(
            "expected the test to end with an exit code below 128, "
            f"but at commit {commit} it {how}; "
            "if that is the fault you look for, test with (COMMAND) || exit 1. "
            f"Its last output: {ending.tail.strip()[-300:]}"
        )
    return "bad" if ending.exit else "good"


def _check_out(
    repository: Repository, commit: str, worktree: Worktree, cancelled: threading.Event
) -> None:
    """Check a commit out in a test's worktree. The repository is cloned into it before.

    Raises:
        RetryableError: git failed.
        RoundStopped: ``cancelled`` was set.
    """
    # No templates and no hooks: checking out a commit must not run anything of the user's git
    # setup.
    quiet = ["git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]
    clone = [
        *quiet,
        "clone",
        "--quiet",
        "--shared",
        "--no-checkout",
        "--template=",
        str(repository.directory),
        ".",
    ]
    for command in (clone, [*quiet, "checkout", "--quiet", "--force", "--detach", commit]):
        ending = run_watched(
            command,
            worktree.path,
            clean_environment(GIT_TERMINAL_PROMPT="0", LC_ALL="C"),
            mark=worktree.mark,
            timeout=None,
            cancelled=cancelled,
        )
        if ending.exit:
            raise RetryableError(
                f"commit {commit} of {repository.directory} could not be checked out: "
                f"{' '.join(ending.tail.split())}"
            )
