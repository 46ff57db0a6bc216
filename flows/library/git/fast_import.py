"""The creation of a whole repository at once. The ids of its commits are always the same."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.flows.library.git.environment import clean_environment

#: The date of the first commit (seconds since 1970). Later ones follow hourly, so their ids never
#: change.
_FIRST_DATE = 1_700_000_000


@dataclass
class NewRepository:
    """A repository to create. Its commits have numbers from 0, in order."""

    _stream: list[bytes] = field(default_factory=list)
    _commits: int = 0

    def commit(
        self,
        parents: Sequence[int],
        files: Mapping[str, str],
        subject: str,
        author: str = "Ada <ada@example.com>",
    ) -> int:
        """Add a commit, and return its number. ``write`` writes the repository later.

        The commit has the files of its first parent, updated with ``files``.

        Args:
            parents: the numbers of the parent commits. Only the first commit may have none.
            files: the texts of the changed files by path.

        Raises:
            ValueError: a later commit has no parents.
        """
        number = self._commits
        self._commits += 1
        who = f"{author} {_FIRST_DATE + 3600 * number} +0000"
        if not parents and number:
            raise ValueError(f"commit {number} has no parent; only the first commit may have none")
        self._stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\nauthor {who}\ncommitter {who}\n".encode()
            + _data(subject)
        )
        for word, parent in zip(["from", *["merge"] * len(parents)], parents, strict=False):
            self._stream.append(f"{word} :{parent + 1}\n".encode())
        for path, text in files.items():
            self._stream.append(f"M 100644 inline {path}\n".encode() + _data(text))
        return number

    def tag(self, name: str, commit: int) -> None:
        """Add a tag for a commit."""
        self._stream.append(f"reset refs/tags/{name}\nfrom :{commit + 1}\n".encode())

    def write(self, path: Path) -> list[str]:
        """Write the new repository, and check out ``main``. ``main`` is at the last commit.

        Args:
            path: the directory of the repository. It is created if necessary.

        Returns:
            The ids of the commits, in the order of their numbers.
        """
        path.mkdir(parents=True, exist_ok=True)
        marks = path / ".git" / "marks"
        _git(path, "init", "--quiet", "--template=", "--initial-branch=main")
        _git(
            path,
            "fast-import",
            "--quiet",
            "--done",
            f"--export-marks={marks}",
            stream=b"".join([*self._stream, b"done\n"]),
        )
        ids = dict(line.split() for line in marks.read_text().splitlines())
        marks.unlink()
        _git(path, "reset", "--quiet", "--hard", "main")
        return [ids[f":{number + 1}"] for number in range(self._commits)]


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n" % len(data) + data + b"\n"


def _git(directory: Path, *arguments: str, stream: bytes = b"") -> None:
    quiet = ["-c", "core.hooksPath=/dev/null"]
    subprocess.run(
        ["git", *quiet, *arguments],
        cwd=directory,
        env=clean_environment(),
        input=stream,
        capture_output=True,
        check=True,
    )
