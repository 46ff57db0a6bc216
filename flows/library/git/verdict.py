"""The test of one commit: check it out in a worktree of its own, run the shell command there, judge its exit code."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from flows.errors import FatalError, RetryableError
from flows.executors.watched_process import Ending, run_watched
from flows.library.git.environment import clean_environment
from flows.library.git.repository import Repository
from flows.library.git.worktree import Worktree, own_worktree

#: The exit code by which a test says that this commit cannot be tested, as for ``git bisect run``.
SKIP = 125


class Verdict(BaseModel):
    """What the test of one commit showed.

    Attributes:
        exit: the test's exit code; None when its time was over.
        seconds: how long the test ran.
        tail: the end of its output.
    """

    commit: str
    outcome: Literal["good", "bad", "skip"]
    exit: int | None
    seconds: float
    tail: str


def judge(repository: Repository, commit: str, test: str, *, root: Path, timeout: float, cancelled: threading.Event) -> Verdict:
    """Test ``commit`` in a worktree under ``root``; the repository is not touched, and nothing is left behind.

    Exit code 0 is good, 125 skips, others up to 127 are bad, as for ``git bisect run``. A test that is still
    running after ``timeout`` seconds says nothing about the commit: it is killed and the commit skipped.

    Raises:
        FatalError: exit code 128 or more, or a signal: the test itself is broken, where git stops too.
        RetryableError: the commit could not be checked out.
        RoundStopped: ``cancelled`` was set.
    """
    with own_worktree(root) as worktree:
        _check_out(repository, commit, worktree, cancelled)
        ending = run_watched(
            ["sh", "-c", test], worktree.path, clean_environment(), mark=worktree.mark, timeout=timeout, cancelled=cancelled
        )
    return Verdict(commit=commit, outcome=_outcome(commit, ending), exit=ending.exit, seconds=ending.seconds, tail=ending.tail)


def _outcome(commit: str, ending: Ending) -> Literal["good", "bad", "skip"]:
    if ending.exit is None or ending.exit == SKIP:
        return "skip"
    if ending.exit < 0 or ending.exit >= 128:
        how = f"was killed by signal {-ending.exit}" if ending.exit < 0 else f"ended with exit code {ending.exit}"
        raise FatalError(
            f"expected the test to end with an exit code below 128, but at commit {commit} it {how}; "
            f"if that is the fault you look for, let the test say so: (COMMAND) || exit 1. Its last words: {ending.tail.strip()[-300:]}"
        )
    return "bad" if ending.exit else "good"


def _check_out(repository: Repository, commit: str, worktree: Worktree, cancelled: threading.Event) -> None:
    # No templates and no hooks: a commit is looked at, nothing of the user's own set-up shall run because of it.
    quiet = ["git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]
    clone = [*quiet, "clone", "--quiet", "--shared", "--no-checkout", "--template=", str(repository.directory), "."]
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
            raise RetryableError(f"commit {commit} of {repository.directory} could not be checked out: {' '.join(ending.tail.split())}")
