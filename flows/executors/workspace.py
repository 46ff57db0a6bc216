"""The workspace: a directory that the commands of a flow may read and write, but cannot leave.

A path is walked one name at a time. Each name is opened relative to the directory before it and
never through a symbolic link. The walk reads a symbolic link and follows it name by name in the
same way. A relative link may therefore lead anywhere inside the workspace.

If another process renames or links something meanwhile, the walk may fail, but it cannot end
outside: there is no time between the check of a name and its use.
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

#: Maximum number of symbolic links in one path, as in Linux (path_resolution(7)).
MAX_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideWorkspace(PermissionError):
    """Raised when a path leads out of the workspace, or to a special file.

    Only regular files and directories are allowed. Absolute symbolic links are not followed.
    """


class Workspace:
    """A directory in which commands may read and write files. A path cannot leave it.

    Args:
        root: An existing directory.

    Raises:
        NotADirectoryError: The directory does not exist.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise NotADirectoryError(f"the workspace is not an existing directory: {root}")

    @contextmanager
    def open(self, path: str, flags: int = os.O_RDONLY, *, parents: bool = False) -> Iterator[int]:
        """Open a file, and yield its descriptor.

        The end of the ``with`` block closes the descriptor.

        Args:
            path: Relative to the workspace. A leading ``/`` means the workspace too.
            flags: As for ``os.open``.
            parents: Whether to create missing directories of the path.

        Raises:
            OutsideWorkspace: The path leads out of the workspace, or is not a regular file.
            OSError: As ``os.open``.
        """
        with self._walk(path, parents=parents) as (directory, name):
            # O_NONBLOCK: a pipe without a writer must not block the round.
            file = _open(
                path, name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, directory
            )
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OutsideWorkspace(f"{path!r} is not a regular file")
                yield file
            finally:
                os.close(file)

    def write(self, path: str, data: bytes) -> None:
        """Write a file of the workspace atomically: readers see the old content or the new one.

        This holds even if the worker crashes. Missing directories are created. If the file exists,
        its permissions do not change.

        Args:
            path: As for ``open``.

        Raises:
            OutsideWorkspace: The path leads out of the workspace, or is not a regular file.
            OSError: The file cannot be written.
        """
        with self._walk(path, parents=True) as (directory, name):
            mode = _mode(path, name, directory)
            draft = f".perdure-{secrets.token_hex(8)}"
            file = _open(
                path,
                draft,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                directory,
            )
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
        """Open a directory, and yield its descriptor.

        The end of the ``with`` block closes the descriptor.

        Raises:
            OutsideWorkspace: The path leads out of the workspace.
            OSError: As ``os.open``.
        """
        with self._walk(path) as (directory, name):
            file = _open(path, name, _DIRECTORY, directory)
            try:
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _walk(self, path: str, *, parents: bool = False) -> Iterator[tuple[int, str]]:
        """Follow a path inside the workspace. Yield its last directory and its last name.

        The directory is an open descriptor. The last name need not exist. It is ``.`` if the path
        ends at that directory itself. Symbolic links are followed, too.

        Args:
            parents: Whether to create missing directories of the path.

        Raises:
            OutsideWorkspace: The path leads out of the workspace, or has a link that is not
                relative.
            OSError: A directory does not exist, or the path has too many links.
        """
        if "\0" in path:
            raise OutsideWorkspace("the path contains a NUL byte")
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
                        raise OutsideWorkspace(
                            f"{path!r} contains a link to {target!r}; "
                            "only relative links are followed"
                        )
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
    """Return the target of a symbolic link. None if the name is not a link or does not exist.

    Args:
        directory: descriptor of the directory that has the name.
    """
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _mode(path: str, name: str, directory: int) -> int | None:
    """Return the permissions of a file before its replacement. None if it does not exist.

    Args:
        path: The whole path, for errors.
        directory: Descriptor of the directory that has the name.

    Raises:
        OSError: The name is not a regular file, or the file is not writable.
    """
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OutsideWorkspace(f"{path!r} is not a regular file")
    if not os.access(
        name, os.W_OK, dir_fd=directory, effective_ids=os.access in os.supports_effective_ids
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return stat.S_IMODE(status.st_mode)


def _make(name: str, directory: int) -> None:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        return


def _open(path: str, name: str, flags: int, directory: int) -> int:
    try:
        return os.open(name, flags, 0o644, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:  # it became a link after the check
            raise OutsideWorkspace(f"{path!r} was changed while it was opened") from error
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
