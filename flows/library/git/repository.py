"""Read access to a git repository: its revisions, its history, its commits."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.flows.core.errors import FatalError
from perdure.flows.library.git.bisection import BisectRange, read_halving
from perdure.flows.library.git.environment import clean_environment


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit with its author and subject line."""

    commit: str
    author: str
    subject: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, by its git directory. No method writes to it."""

    directory: Path

    @classmethod
    def open(cls, path: str) -> Repository:
        """Return the git repository at ``path``.

        The path may be its work tree, a directory in it, a linked worktree, or a bare repository.

        Raises:
            FatalError: The path is not a repository, or git refuses to read it.
        """
        if not Path(path).is_dir():
            raise FatalError(
                f"expected a git repository at {path}, but this machine has no such "
                "directory; pass the path on the workers"
            )
        git_directory = _git(Path(path), "rev-parse", "--path-format=absolute", "--git-common-dir")
        if git_directory.returncode:
            raise FatalError(
                f"expected a git repository at {path}, but git says: {_error_text(git_directory)}"
            )
        return cls(Path(_text(git_directory.stdout).removesuffix("\n")))

    def resolve(self, revision: str) -> str:
        """Return the full id of a revision's current commit.

        Raises:
            FatalError: The revision names no commit.
        """
        parsed = None
        if revision and not revision.startswith("-") and "\0" not in revision:
            parsed = _git(
                self.directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"
            )
        if parsed is None or parsed.returncode:
            raise FatalError(
                f"expected a revision of {self.directory}, but {revision!r} names no commit "
                "there; see git log --all"
            )
        return _text(parsed.stdout).strip()

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether commit ``older`` is ``newer`` itself or an ancestor of ``newer``.

        Raises:
            FatalError: git cannot compare the commits.
        """
        compared = _git(self.directory, "merge-base", "--is-ancestor", older, newer)
        if compared.returncode not in (0, 1):
            raise FatalError(
                f"git cannot compare {older} with {newer} in {self.directory}: "
                f"{_error_text(compared)}"
            )
        return compared.returncode == 0

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest common ancestor of two commits.

        Returns:
            None if there is none, or if git cannot compare the commits.
        """
        base = _git(self.directory, "merge-base", one, other)
        return _text(base.stdout).split("\n")[0] or None

    def halve(self, bad: str, good: Sequence[str], skipped: Collection[str]) -> BisectRange:
        """Return the next commit to test, and how many commits and tests remain.

        Raises:
            FatalError: git fails.
        """
        # With skips git weighs and sorts all candidates; without them it stops at the first good
        # enough. This does the same, to choose the same commits.
        every = ["--bisect-all"] if skipped else []
        return read_halving(
            self._read("rev-list", *every, "--bisect-vars", bad, "--not", *good, "--"), bad, skipped
        )

    def candidates(self, bad: str, good: Sequence[str]) -> list[str]:
        """Return the candidates for the first bad commit, newest first.

        They are ``bad`` and its ancestors, without the good commits and their ancestors.

        Raises:
            FatalError: git fails.
        """
        return self._read("rev-list", "--topo-order", bad, "--not", *good, "--").split()

    def line(self, commit: str) -> CommitLine:
        """Return a commit with its author and subject line.

        Raises:
            FatalError: git fails.
        """
        text = self._read(
            "show",
            "--no-patch",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--format=%an <%ae>%x00%s",
            commit,
            "--",
        )
        author, _, subject = text.removesuffix("\n").partition("\0")
        return CommitLine(commit, author, subject)

    def _read(self, *arguments: str) -> str:
        completed = _git(self.directory, *arguments)
        if completed.returncode:
            raise FatalError(
                f"git {arguments[0]} failed in {self.directory}: {_error_text(completed)}"
            )
        return _text(completed.stdout)


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # Without optional locks git does not even refresh a cache in the repository. With LC_ALL=C its
    # messages are English.
    environment = clean_environment(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    try:
        return subprocess.run(
            ["git", "--no-pager", *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise FatalError("git is not on the worker's PATH; install git") from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _error_text(completed: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join(_text(completed.stderr).split()) or f"exit code {completed.returncode}"
