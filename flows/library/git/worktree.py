"""Worktrees of one test each, removed even after a crash.

A worktree is a clone that borrows the repository's objects and has its own copy of everything else.
``git worktree add`` would write into the repository, and a crash would leave that behind.

All worktrees of a user are in one directory. Beside each worktree is a file that the owning process
keeps locked. If another process can lock the file, the owning process has ended.
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

from perdure.flows.core.errors import FatalError
from perdure.flows.executors.subprocesses import kill_marked


@dataclass(frozen=True, slots=True)
class Worktree:
    """An empty directory for a test, with a process mark.

    The mark is the name of an environment variable. All processes of the test have this variable,
    so that they can be found and killed.
    """

    path: Path
    mark: str


def worktrees_root() -> Path:
    """Return the directory of this user's worktrees. Create it if necessary.

    Raises:
        FatalError: The path is no directory, or another user owns it or may write to it.
    """
    root = Path(tempfile.gettempdir()) / f"perdure-bisect-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise FatalError(
            f"expected {root} to be a directory that only this user may write to; remove it, "
            "or set TMPDIR"
        )
    return root


@contextlib.contextmanager
def own_worktree(root: Path) -> Iterator[Worktree]:
    """Create an empty worktree for one test in the directory ``root``, and yield it.

    At the end of the ``with`` block, all processes that have the environment variable
    ``Worktree.mark`` are killed, and the worktree is removed.
    """
    name, lock = _locked_name(root)
    worktree = Worktree(root / name, _mark(name))
    try:
        worktree.path.mkdir()
        yield worktree
    finally:
        _remove(root, name)
        os.close(lock)


def remove_abandoned(root: Path) -> list[str]:
    """Remove worktrees whose owning process has ended.

    All processes that have the mark of such a worktree in their environment are killed.

    Returns:
        The names of the removed worktrees.
    """
    removed = []
    for file in sorted(root.glob("*.lock")):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:  # 0 links: its owner has just removed it
                    _remove(root, file.stem)
                    removed.append(file.stem)
            finally:
                os.close(lock)
    return removed


def _locked_name(root: Path) -> tuple[str, int]:
    """Choose a new worktree's name. Create and lock its lock file.

    Returns:
        The name, and the descriptor of the lock file. Closing the descriptor releases the lock.
    """
    while True:
        name = uuid.uuid4().hex
        file = root / f"{name}.lock"
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Before the lock, another process may have taken the file for abandoned. Then try another
        # name.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return name, lock
        except BlockingIOError:
            pass
        os.close(lock)


def _mark(name: str) -> str:
    # Each worktree has its own mark. A bisection inside a test of a bisection also inherits the
    # outer mark, and each finds its own processes.
    return f"BISECT_WORKTREE_{name}"


def _remove(root: Path, name: str) -> None:
    kill_marked(_mark(name))
    path = root / name
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        # A test may have removed write permissions from its own directories. Restore them.
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(path, ignore_errors=True)
    if not path.exists():  # otherwise the file remains, and the next test tries again
        (root / f"{name}.lock").unlink(missing_ok=True)
