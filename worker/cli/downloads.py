"""Output of commands to files and standard output."""

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
    """Replace a file's content atomically. If that fails, the file keeps its old content.

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
    """Write a run's file to ``target``, or to standard output if that is None.

    With ``as_json``, standard output gets one JSON document.

    Raises:
        Failed: The file cannot be written, or it is not text and would be shown on a terminal.
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
