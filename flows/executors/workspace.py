"""Workspace: a directory that the commands of a flow may read and write, and cannot leave.

A path is walked one name at a time, each opened relative to the directory before it and never through a symbolic link. A link
is read instead, and walked in its turn, so it may lead anywhere inside. What somebody else renames or links meanwhile can make a
walk fail; it cannot make it end outside, for there is no moment between a check and the use of what was checked.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Links that one path may lead over, as Linux has it (path_resolution(7)).
MAX_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideWorkspace(PermissionError):
    """The path leads out of the workspace, or to something that is no plain file or directory."""


class Workspace:
    """A directory that holds what its users may see.

    Args:
        root: an existing directory.

    Raises:
        NotADirectoryError: there is none.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise NotADirectoryError(f"the workspace should be a directory that is there: {root}")

    @contextmanager
    def open(self, path: str, flags: int = os.O_RDONLY, *, parents: bool = False) -> Iterator[int]:
        """A descriptor of a plain file, closed at the end.

        Args:
            path: relative to the workspace; one that begins with ``/`` is taken to begin there too.
            flags: of ``os.open``.
            parents: make the directories on the way that are missing.

        Raises:
            OutsideWorkspace: see there. OSError: as ``os.open``.
        """
        with self._walk(path, parents=parents) as (directory, name):
            # Not blocking: a pipe without a writer, put here by somebody, must not hold up the round.
            file = _open(path, name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, directory)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OutsideWorkspace(f"{path!r} is no plain file")
                yield file
            finally:
                os.close(file)

    def write(self, path: str, data: bytes) -> None:
        """Write a plain file whole: a reader, and whoever comes after a crash, finds the old content or the new, never a part.

        Missing directories are made; a file that is there keeps its mode. Raises as ``open``.
        """
        with self._walk(path, parents=True) as (directory, name):
            mode = _mode(path, name, directory)
            draft = f".holdfast-{secrets.token_hex(8)}"
            file = _open(path, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, directory)
            try:
                with os.fdopen(file, "wb") as opened:
                    opened.write(data)
                    opened.flush()
                    if mode is not None:
                        os.fchmod(file, mode)
                    os.fsync(file)
                os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=directory)
                raise
            os.fsync(directory)

    @contextmanager
    def directory(self, path: str = ".") -> Iterator[int]:
        """A descriptor of a directory, closed at the end; raises as ``open``."""
        with self._walk(path) as (directory, name):
            file = _open(path, name, _DIRECTORY, directory)
            try:
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _walk(self, path: str, *, parents: bool = False) -> Iterator[tuple[int, str]]:
        """The directory in which the last name of ``path`` stands, links followed, and that name."""
        if "\0" in path:
            raise OutsideWorkspace("a path holds no NUL")
        names, links = deque(_names(path)), 0
        opened = [os.open(self.root, _DIRECTORY)]
        try:
            last = "."
            while names:
                name = names.popleft()
                if name == "..":
                    if len(opened) == 1:
                        raise OutsideWorkspace(f"{path!r} leads out of the workspace")
                    os.close(opened.pop())
                    continue
                target = _link(name, opened[-1])
                if target is not None:
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    if target.startswith("/"):
                        raise OutsideWorkspace(f"{path!r} leads over a link to {target!r}; only relative links are followed")
                    names.extendleft(reversed(_names(target)))
                elif names:
                    if parents:
                        _make(name, opened[-1])
                    opened.append(_open(path, name, _DIRECTORY, opened[-1]))
                else:
                    last = name
            yield opened[-1], last
        finally:
            for directory in opened:
                os.close(directory)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _link(name: str, directory: int) -> str | None:
    """Where the link leads; None of what is no link, or not there."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _mode(path: str, name: str, directory: int) -> int | None:
    """The permissions of the plain file that is there; None where nothing is."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OutsideWorkspace(f"{path!r} is no plain file")
    if not os.access(name, os.W_OK, dir_fd=directory, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return stat.S_IMODE(found.st_mode)


def _make(name: str, directory: int) -> None:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        return


def _open(path: str, name: str, flags: int, directory: int) -> int:
    try:
        return os.open(name, flags, 0o644, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it has become a link since it was looked at
            raise OutsideWorkspace(f"{path!r} was changed while it was opened") from error
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
