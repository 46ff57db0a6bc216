"""Exit codes, and the report of an error: one sentence on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, TypeGuard

import click

if TYPE_CHECKING:
    from perdure.flows.core.errors import PerdureError

#: Exit codes of commands. Errors have these numbers as their ``exit_code``.
DONE, INTERNAL, USAGE, NOT_FOUND, NO_SERVER, NOT_POSSIBLE = 0, 1, 2, 3, 7, 8
INTERRUPTED_BY_USER = 130
#: Exit codes of `watch`, `wait` and `submit --watch` for how the run ended. A run that used up its
#: cycles has not succeeded either.
RUN_ERRORED, RUN_STOPPED, RUN_INTERRUPTED = 4, 5, 6
RUN_UNFINISHED = RUN_ERRORED
#: `wait --timeout`: the run has not ended in time, and continues.
RUN_GOES_ON = 9

#: The environment variable that, if set, turns on tracebacks.
DEBUG = "PERDURE_DEBUG"


class Failed(Exception):
    """Raised when a CLI command cannot be carried out.

    Args:
        message: The sentence to print.
        exit_code: The exit code. None means that of the class.
    """

    exit_code = INTERNAL

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class NoServer(Failed):
    """Raised when a command finds no state server (Redis or Valkey)."""

    exit_code = NO_SERVER


def report_error(error: BaseException) -> int:
    """Print a command's error on stderr. Return the exit code.

    The report is one sentence. With ``PERDURE_DEBUG`` set, the traceback comes before it.
    """
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show(sys.stderr)
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo(f"\n{error}" if str(error) else "\ninterrupted", err=True)
        return INTERRUPTED_BY_USER
    from perdure.worker.presentation.text import lines, plain

    code = code_of(error)
    text = plain(str(error)) if code != NO_SERVER else lines(str(error))
    if code == INTERNAL and not _is_ours(error):
        text = f"internal error: {type(error).__name__}: {text}; set {DEBUG}=1 to see the traceback"
    click.echo(f"perdure: {text}", err=True)
    return code


def code_of(error: BaseException) -> int:
    """Return the exit code of a command that raised this error.

    It is INTERNAL for an error that is not one of Perdure's.
    """
    return error.exit_code if _is_ours(error) else INTERNAL


def _is_ours(error: BaseException) -> TypeGuard[PerdureError | Failed]:
    if isinstance(error, Failed):
        return True
    # Imported here because it is slow, and `--help` needs no error.
    from perdure.flows.core.errors import PerdureError

    return isinstance(error, PerdureError)
