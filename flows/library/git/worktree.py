"""Worktrees that belong to one test each, and are removed also after a crash.

A worktree is a clone that borrows the repository's objects and has its own everything else: ``git worktree add``
would write into the repository, and a crash would leave that there. All worktrees of a user stand under one folder;
beside each lies a file that its owner keeps locked, so a worktree whose file can be locked has lost its owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.errors import FatalError
from flows.executors.processes import kill_marked


@dataclass(frozen=True, slots=True)
class Worktree:
    """An empty folder for one test, and the mark of the processes that work in it."""

    path: Path
    mark: str


def worktrees_root() -> Path:
    """The folder of all worktrees of this user on this machine; made if need be.

    Raises:
        FatalError: somebody else owns it, or may write there.
    """
    root = Path(tempfile.gettempdir()) / f"holdfast-bisect-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise FatalError(f"expected {root} to be a folder that only this user may write to; remove it, or set TMPDIR")
    return root


@contextlib.contextmanager
def own_worktree(root: Path) -> Iterator[Worktree]:
    """A folder of one's own under ``root``, removed at the end with all that still works in it."""
    name, lock = _locked_name(root)
    worktree = Worktree(root / name, _mark(name))
    try:
        worktree.path.mkdir()
        yield worktree
    finally:
        _remove(root, name)
        os.close(lock)


def remove_abandoned(root: Path) -> list[str]:
    """Remove the worktrees whose owners are dead, and kill what these left running; returns their names."""
    removed = []
    for file in sorted(root.glob("*.lock")):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:  # else its owner removed it just now
                    _remove(root, file.stem)
                    removed.append(file.stem)
            finally:
                os.close(lock)
    return removed


def _locked_name(root: Path) -> tuple[str, int]:
    while True:
        name = uuid.uuid4().hex
        file = root / f"{name}.lock"
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Between making and locking it, somebody may have taken the file for abandoned; then try another name.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return name, lock
        except BlockingIOError:
            pass
        os.close(lock)


def _mark(name: str) -> str:
    # A name for each: a bisection inside a test of a bisection keeps the outer mark too, and both find their own.
    return f"BISECT_WORKTREE_{name}"


def _remove(root: Path, name: str) -> None:
    kill_marked(_mark(name))
    path = root / name
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # a test may take the right to write from its own folders; the owner can take it back
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(path, ignore_errors=True)
    if not path.exists():  # else the file stays, and the next test tries again
        (root / f"{name}.lock").unlink(missing_ok=True)
