"""Commands that read and write files of the worker's workspace, and nothing outside it."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from flows.commands import command
from flows.context import RoundContext
from flows.executors.workspace import Workspace

#: Bytes of a file that one reading returns: about 6,000 tokens, and, with what JSON adds, less than a result may have (``results.MOST``).
READ_BYTES = 24_000
#: Bytes of a file that are looked at for a text; what is larger is data.
SEARCHED_BYTES = 4 * 1024 * 1024
#: Entries, or places found, that one command returns, and characters of a line that are shown.
ENTRIES, LINE = 500, 200
#: Directories below which nothing is looked for: they hold what machines wrote.
SKIPPED = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules"})


class NoWorkspace(RuntimeError):
    """The worker has no workspace."""


def workspace_of(context: RoundContext) -> Workspace:
    """The workspace of the worker that plays the round; raises NoWorkspace."""
    if context.workspace is None:
        raise NoWorkspace(
            "this worker has no workspace; whoever starts it names a directory (HOLDFAST_WORKSPACE, or workspace in worker.toml)"
        )
    return Workspace(context.workspace)


@command(name="read_file", idempotent=True)
def read_file(context: RoundContext, path: str, offset: int = 0) -> dict[str, Any]:
    """Read a text file of the workspace, from the byte `offset` on; long ones in parts."""
    begin = max(0, offset)
    with workspace_of(context).open(path) as file:
        size = os.fstat(file).st_size
        os.lseek(file, begin, os.SEEK_SET)
        data = os.read(file, READ_BYTES)
    if b"\0" in data:
        raise ValueError(f"{path!r} is no text: it holds NUL bytes ({size} bytes in all)")
    end = begin + len(data)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=end >= size)
    end -= len(decoder.getstate()[0])  # a character that the part would cut in two begins the next one
    told: dict[str, Any] = {"path": path, "text": text, "bytes": size}
    return told if end >= size else {**told, "next_offset": end}


@command(name="write_file", idempotent=True)
def write_file(context: RoundContext, path: str, text: str) -> dict[str, Any]:
    """Write a text file of the workspace whole, in place of what is there, or not at all; missing directories are made."""
    data = text.encode("utf-8", "replace")
    workspace_of(context).write(path, data)
    return {"path": path, "bytes": len(data)}


@command(name="list_files", idempotent=True)
def list_files(context: RoundContext, path: str = ".", pattern: str = "*") -> dict[str, Any]:
    """List files under a directory of the workspace whose name or path matches `pattern` (`*.py`, `src/*`)."""
    found: list[dict[str, Any]] = []
    with workspace_of(context).directory(path) as top:
        for name, file in _files(top, context):
            if fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern):
                if len(found) == ENTRIES:
                    return {"files": found, "cut": f"the first {ENTRIES}; there are more: name a directory or a narrower pattern"}
                found.append({"path": _shown(name), "bytes": file.st_size})
    return {"files": found}


@command(name="search_files", idempotent=True)
def search_files(context: RoundContext, text: str, path: str = ".", pattern: str = "*") -> dict[str, Any]:
    """Find lines that hold `text` (as it stands, no expression) in files under a directory of the workspace that match `pattern`.

    What is larger than ``SEARCHED_BYTES`` or cannot be read is not searched, and the result says of how many files that is so.
    """
    if not text:
        raise ValueError("the text to look for should not be empty")
    found: list[dict[str, Any]] = []
    unsearched = 0
    workspace = workspace_of(context)
    with workspace.directory(path) as top:
        for name, file in _files(top, context):
            if not (fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)):
                continue
            lines = None if file.st_size > SEARCHED_BYTES else _lines(workspace, f"{path}/{name}", text)
            unsearched += lines is None
            for number, line in lines or ():
                if len(found) == ENTRIES:
                    return {"places": found, "cut": f"the first {ENTRIES}; there are more: name a directory or a longer text"}
                found.append({"path": _shown(name), "line": number, "text": line})
    return {"places": found, "not_searched": f"{unsearched} files, too large or not readable"} if unsearched else {"places": found}


def _files(top: int, context: RoundContext) -> Iterator[tuple[str, os.stat_result]]:
    """Plain files under an open directory, by their path below it, in order. Links are not followed."""
    for directory, below, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        context.raise_if_stopped()
        below[:] = sorted(name for name in below if name not in SKIPPED)
        for name in sorted(names):
            try:
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone since
            if stat.S_ISREG(found.st_mode):
                yield os.path.normpath(f"{directory}/{name}"), found


def _lines(workspace: Workspace, path: str, text: str) -> list[tuple[int, str]] | None:
    """Numbers and beginnings of the lines of a file that hold ``text``; none of a file that is no text; None if it cannot be read."""
    try:
        with workspace.open(path) as file, os.fdopen(os.dup(file), "rb") as opened:
            data = opened.read(SEARCHED_BYTES)
    except FileNotFoundError:
        return []  # gone since
    except OSError:
        return None
    if b"\0" in data or text.encode("utf-8", "replace") not in data:
        return []
    lines = enumerate(data.decode("utf-8", "replace").split("\n"), 1)
    return [(number, line.strip()[:LINE]) for number, line in lines if text in line][: ENTRIES + 1]


def _shown(name: str) -> str:
    """A file's name as JSON can hold it: bytes that are no UTF-8 as ``\\xNN``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
