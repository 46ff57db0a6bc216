"""The commands for files in the worker's workspace.

The command ``read_artifact`` reads a result that was too long for the history, in parts.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from perdure.flows.commands.command import command
from perdure.flows.executors.workspace import Workspace
from perdure.flows.rounds.context import RoundContext

#: Bytes of a file that one call returns: about 6,000 tokens. Even with JSON escapes this is less
#: than a result may have (``summaries.MOST``).
READ_BYTES = 24_000
#: Largest file, in bytes, that is searched for a text. Larger files are taken for data.
SEARCHED_BYTES = 4 * 1024 * 1024
#: Maximum number of entries or matches that one command returns, and of characters shown of a line.
ENTRIES, LINE = 500, 200
#: Directories that are not listed or searched, because their files are generated.
SKIPPED = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules"})


class NoWorkspace(RuntimeError):
    """Raised when a command needs a workspace and the worker has none."""


def workspace_of(context: RoundContext) -> Workspace:
    """Return the workspace: the directory in which this worker lets commands read and write files.

    Raises:
        NoWorkspace: The worker was started without a workspace.
    """
    if context.workspace is None:
        raise NoWorkspace(
            "this worker has no workspace: set PERDURE_WORKSPACE (or workspace in "
            "worker.toml) to a directory"
        )
    return Workspace(context.workspace)


@command(name="read_file", idempotent=True)
def read_file(context: RoundContext, path: str, offset: int = 0) -> dict[str, Any]:
    """Read a text file of the workspace, from byte `offset` on; long files in parts."""
    begin = max(0, offset)
    with workspace_of(context).open(path) as file:
        size = os.fstat(file).st_size
        os.lseek(file, begin, os.SEEK_SET)
        data = os.read(file, READ_BYTES)
    if b"\0" in data:
        raise ValueError(
            f"{path!r} is not a text file: it contains NUL bytes (file size: {size} bytes)"
        )
    end = begin + len(data)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=end >= size)
    end -= len(decoder.getstate()[0])  # a character cut in two goes into the next part
    part: dict[str, Any] = {"path": path, "text": text, "bytes": size}
    return part if end >= size else {**part, "next_offset": end}


@command(name="write_file", idempotent=True)
def write_file(context: RoundContext, path: str, text: str) -> dict[str, Any]:
    """Write a text file of the workspace as a whole, replacing it; creates missing directories."""
    data = text.encode("utf-8", "replace")
    workspace_of(context).write(path, data)
    return {"path": path, "bytes": len(data)}


@command(name="list_files", idempotent=True)
def list_files(context: RoundContext, path: str = ".", pattern: str = "*") -> dict[str, Any]:
    """List the files under a directory whose name or path matches `pattern` (`*.py`, `src/*`)."""
    files: list[dict[str, Any]] = []
    with workspace_of(context).directory(path) as top:
        for name, file in _files(top, context):
            if fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern):
                if len(files) == ENTRIES:
                    return {
                        "files": files,
                        "cut": f"only the first {ENTRIES} are listed: name a directory or a "
                        "narrower pattern",
                    }
                files.append({"path": _shown(name), "bytes": file.st_size})
    return {"files": files}


@command(name="search_files", idempotent=True)
def search_files(
    context: RoundContext, text: str, path: str = ".", pattern: str = "*"
) -> dict[str, Any]:
    """Find lines that contain `text` (literally, not a regex) in files that match `pattern`.

    Files that are larger than ``SEARCHED_BYTES`` or cannot be read are not searched. The result
    contains their number.
    """
    if not text:
        raise ValueError("text is empty; expected the text to search for")
    matches: list[dict[str, Any]] = []
    unsearched = 0
    workspace = workspace_of(context)
    with workspace.directory(path) as top:
        for name, file in _files(top, context):
            if not (fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)):
                continue
            lines = (
                None if file.st_size > SEARCHED_BYTES else _lines(workspace, f"{path}/{name}", text)
            )
            unsearched += lines is None
            for number, line in lines or ():
                if len(matches) == ENTRIES:
                    return {
                        "places": matches,
                        "cut": f"only the first {ENTRIES} are listed: name a directory or a longer "
                        "text",
                    }
                matches.append({"path": _shown(name), "line": number, "text": line})
    return (
        {"places": matches, "not_searched": f"{unsearched} files, too large or not readable"}
        if unsearched
        else {"places": matches}
    )


def _files(top: int, context: RoundContext) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative path and status of each regular file under a directory, sorted.

    Symbolic links and the directories in ``SKIPPED`` are not followed.

    Args:
        top: descriptor of the open directory.

    Raises:
        RoundStopped: the round was stopped or cancelled.
    """
    for directory, below, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        context.raise_if_stopped()
        below[:] = sorted(name for name in below if name not in SKIPPED)
        for name in sorted(names):
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue  # deleted since the directory was listed
            if stat.S_ISREG(status.st_mode):
                yield os.path.normpath(f"{directory}/{name}"), status


def _lines(workspace: Workspace, path: str, text: str) -> list[tuple[int, str]] | None:
    """Return the number and the beginning of each line of a file that contains ``text``.

    Returns:
        At most ``ENTRIES`` + 1 lines. An empty list for a file that is not text or was deleted.
            None if the file cannot be read.
    """
    try:
        with workspace.open(path) as file, os.fdopen(os.dup(file), "rb") as opened:
            data = opened.read(SEARCHED_BYTES)
    except FileNotFoundError:
        return []  # deleted since the directory was listed
    except OSError:
        return None
    if b"\0" in data or text.encode("utf-8", "replace") not in data:
        return []
    lines = enumerate(data.decode("utf-8", "replace").split("\n"), 1)
    return [(number, line.strip()[:LINE]) for number, line in lines if text in line][: ENTRIES + 1]


def _shown(name: str) -> str:
    """Return a file name as a text for JSON. Bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


#: Characters that one call returns. Even with JSON escapes this is less than a result may have
#: (``perdure.flows.core.summaries.MOST``).
PART = 24_000


@command(name="read_artifact", idempotent=True)
def read_artifact(context: RoundContext, name: str, offset: int = 0) -> dict[str, Any]:
    """Read a result that was cut, by its artifact's name, from character `offset` on, in parts."""
    try:
        text = context.artifact(name)
    except KeyError as error:
        raise ValueError(
            f"this run has no artifact {name!r}; a result that was cut contains the name of "
            "its artifact"
        ) from error
    begin = min(max(0, offset), len(text))
    end = begin + PART
    part: dict[str, Any] = {"artifact": name, "text": text[begin:end], "characters": len(text)}
    return part if end >= len(text) else {**part, "next_offset": end}
