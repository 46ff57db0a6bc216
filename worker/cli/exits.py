"""Exit codes, and what is said of an error: one sentence on stderr, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback

import click

DONE, INTERNAL, USAGE, NOT_FOUND, NO_SERVER, NOT_POSSIBLE, INTERRUPTED_BY_USER = 0, 1, 2, 3, 7, 8, 130
#: What `watch`, `wait` and `submit --watch` say of the run's own end; one that used up its cycles is no success either.
RUN_ERRORED, RUN_STOPPED, RUN_INTERRUPTED = 4, 5, 6
RUN_UNFINISHED = RUN_ERRORED
#: `wait --timeout`: the run has not ended in that time, and goes on.
RUN_GOES_ON = 9

#: Set to anything, tracebacks are shown.
DEBUG = "HOLDFAST_DEBUG"


class NoServer(Exception):
    """There is no server to talk to."""


class Failed(Exception):
    """A command cannot do what it was asked for.

    Args:
        message: the sentence to say.
        code: the exit code.
    """

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        super().__init__(message)
        self.code = code


def told(error: BaseException) -> int:
    """Say on stderr what went wrong; returns the exit code."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show(sys.stderr)
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo(f"\n{error}" if str(error) else "\ninterrupted", err=True)
        return INTERRUPTED_BY_USER
    from worker.words.texts import lines, plain

    code = code_of(error)
    text = plain(str(error)) if code != NO_SERVER else lines(str(error))
    if code == INTERNAL and not _is_ours(error):
        text = f"an error that should not happen: {type(error).__name__}: {text}; set {DEBUG}=1 for the traceback"
    click.echo(f"holdfast: {text}", err=True)
    return code


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    # Here and not above: these take time, and `--help` needs none of them.
    from flows.errors import InvalidFlow, UnstorableValue
    from worker import errors
    from worker.embedded import EmbeddedServerError
    from worker.store import AccessDenied, NotReplicated, StoreUnavailable

    codes: list[tuple[type[BaseException] | tuple[type[BaseException], ...], int]] = [
        (AccessDenied, NOT_POSSIBLE),  # the server is there; trying again later would not help
        ((NoServer, StoreUnavailable, NotReplicated, EmbeddedServerError), NO_SERVER),
        ((errors.RunNotFound, errors.ArtifactNotFound, errors.UnknownFlow, errors.TokenNotFound), NOT_FOUND),
        ((errors.InvalidInput, errors.InvalidSettings, UnstorableValue, InvalidFlow), USAGE),
        ((errors.InvalidTransition, errors.Stale, errors.RunExists, errors.Conflict), NOT_POSSIBLE),
        ((errors.UnknownCaller, errors.Forbidden, errors.UnsafeServer), NOT_POSSIBLE),
    ]
    if isinstance(error, Failed):
        return error.code
    return next((code for kinds, code in codes if isinstance(error, kinds)), INTERNAL)


def _is_ours(error: BaseException) -> bool:
    from flows.errors import HoldfastError

    return isinstance(error, HoldfastError | Failed)
