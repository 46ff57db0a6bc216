"""Output of a command to a file, or of a run's file to standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import USAGE, Failed
from perdure.worker.presentation.text import lines

if TYPE_CHECKING:
    from perdure.flows.core.files import File


def write(content: bytes, file: Path) -> None:
    """Write ``content`` to a file atomically. If that fails, the file keeps its old content.

    Raises:
        Failed: The file cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "wb") as new:
                new.write(content)
            os.replace(name, file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failed(f"cannot write {file}: {error.strerror or error}", USAGE) from error


def write_file(run_id: str, file: File, target: Path | None, as_json: bool) -> None:
    """Write a file of a run to a path or to standard output.

    Args:
        target: The path. None means standard output.
        as_json: Whether to print one JSON document with the file's content to standard output. It
            is ignored if there is a ``target``.

    Raises:
        Failed: The target cannot be written. Or standard output is a terminal, and the file is not
            text.
    """
    size = f"{len(file.content):,} bytes, {file.media_type}"
    if target is not None:
        write(file.content, target)
        click.echo(f"wrote {file.name} of run {run_id} to {target}: {size}", err=True)
    elif as_json:
        from perdure.flows.core.files import data_of

        output.document({"run": run_id, **data_of(file)})
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(file.content)
    elif file.media_type.startswith("text/"):
        click.echo(lines(file.content.decode("utf-8", "replace")))
    else:
        raise Failed(
            f"{file.name} ({size}) is nothing for a terminal; write it to a file: --output FILE",
            USAGE,
        )
