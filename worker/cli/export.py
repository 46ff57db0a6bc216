"""show --output: a run as a JSON file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from worker.cli.exits import USAGE, Failed


def written(document: dict[str, Any], file: Path) -> None:
    """Write the document whole or not at all: what stood in the file before stays until the new one is complete."""
    text = json.dumps(document, indent=2) + "\n"
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as new:
                new.write(text)
            os.replace(name, file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failed(f"{file} cannot be written: {error.strerror or error}", USAGE) from error
    click.echo(f"{document['run']['id']} is in {file}: {len(document['history'])} turns, {len(document['events'])} events", err=True)
