"""A git repository that is only read: its revisions, its history, its commits."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.errors import FatalError
from flows.library.git.environment import clean_environment
from flows.library.git.halving import Halving, read_halving


@dataclass(frozen=True, slots=True)
class CommitLine:
    """What people want to read of a commit."""

    commit: str
    author: str
    subject: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by its git directory; nothing here ever writes to it."""

    directory: Path

    @classmethod
    def open(cls, path: str) -> Repository:
        """The repository at ``path`` (its work tree, a folder in it, a linked worktree, or a bare repository).

        Raises:
            FatalError: there is none, or git refuses to read it.
        """
        if not Path(path).is_dir():
            raise FatalError(
                f"expected a git repository at {path}, but this machine has no such directory; give the path that the workers see"
            )
        found = _git(Path(path), "rev-parse", "--path-format=absolute", "--git-common-dir")
        if found.returncode:
            raise FatalError(f"expected a git repository at {path}, but git says: {_words(found)}")
        return cls(Path(_text(found.stdout).removesuffix("\n")))

    def resolve(self, revision: str) -> str:
        """The full id of the commit that ``revision`` names now.

        Raises:
            FatalError: it names no commit.
        """
        found = None
        if revision and not revision.startswith("-") and "\0" not in revision:
            found = _git(self.directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if found is None or found.returncode:
            raise FatalError(f"expected a revision of {self.directory}, but {revision!r} names no commit there; see git log --all")
        return _text(found.stdout).strip()

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``older`` is contained in ``newer`` (a commit contains itself)."""
        answer = _git(self.directory, "merge-base", "--is-ancestor", older, newer)
        if answer.returncode not in (0, 1):
            raise FatalError(f"git cannot compare {older} with {newer} in {self.directory}: {_words(answer)}")
        return answer.returncode == 0

    def merge_base(self, one: str, other: str) -> str | None:
        """The newest commit that both contain; None where there is none."""
        found = _git(self.directory, "merge-base", one, other)
        return _text(found.stdout).split("\n")[0] or None

    def halve(self, bad: str, good: Sequence[str], skipped: Collection[str]) -> Halving:
        """What is left between ``good`` and ``bad``, and the commit to test next; see ``Halving``."""
        # With skips git weighs all candidates and sorts them, without it stops at the first good enough: so do we, to choose as it does.
        every = ["--bisect-all"] if skipped else []
        return read_halving(self._read("rev-list", *every, "--bisect-vars", bad, "--not", *good, "--"), bad, skipped)

    def candidates(self, bad: str, good: Sequence[str]) -> list[str]:
        """The commits contained in ``bad`` and in none of ``good``, newest first."""
        return self._read("rev-list", "--topo-order", bad, "--not", *good, "--").split()

    def line(self, commit: str) -> CommitLine:
        """Author and subject of a commit."""
        text = self._read("show", "--no-patch", "--no-show-signature", "--encoding=UTF-8", "--format=%an <%ae>%x00%s", commit, "--")
        author, _, subject = text.removesuffix("\n").partition("\0")
        return CommitLine(commit, author, subject)

    def _read(self, *arguments: str) -> str:
        answer = _git(self.directory, *arguments)
        if answer.returncode:
            raise FatalError(f"git {arguments[0]} failed in {self.directory}: {_words(answer)}")
        return _text(answer.stdout)


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # Without optional locks not even a cache of git's is refreshed in the repository; in C, git's words are English.
    environment = clean_environment(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    try:
        return subprocess.run(
            ["git", "--no-pager", *arguments], cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise FatalError("expected the program git on the worker's PATH, but there is none; install git") from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _words(answer: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join(_text(answer.stderr).split()) or f"exit code {answer.returncode}"
