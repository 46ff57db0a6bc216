"""``celery -A APP perdure ...``: the commands for that app's state server and prefix.

Celery imports this module in each ``celery`` command, so it imports nothing that is slow.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import click

from perdure.worker.cli import exit_codes
from perdure.worker.cli.main import COMMANDS, Commands

if TYPE_CHECKING:
    from perdure.worker.runtime.runtime import Runtime

#: The key in click's context that holds the app's ``Runtime`` while a command runs.
ENGINE = "perdure.engine"
#: Commands that are not offered on an app, each with the alternative.
ELSEWHERE = {
    "worker": "celery -A {app} worker runs rounds beside the app's own tasks",
    "up": "the app has a server; start a worker with: celery -A {app} worker",
    "demo": "the demo starts its own server; run: perdure demo",
}


class AppCommands(Commands):
    """The click group of the commands on a Celery app. Those in ELSEWHERE are missing."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: command for name, command in COMMANDS.items() if name not in ELSEWHERE
    }

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the user typed after ``celery -A APP perdure``.

        An error is reported in one sentence, and is not raised. The process then exits with
        Perdure's exit code for the error.
        """
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit:
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(exit_codes.DONE)
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(exit_codes.report_error(error))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the click command that the first argument names.

        Returns:
            The command's name, the command, and the other arguments.

        Raises:
            UsageError: The command does not exist, or is not available on the user's own Celery
                app. The message says what to do instead.
        """
        if args and args[0] in ELSEWHERE:
            instead = ELSEWHERE[args[0]].format(app=_app_name(ctx))
            raise click.UsageError(
                f"{args[0]!r} is not available on your own Celery app: {instead}.",
                ctx,
            )
        return super().resolve_command(ctx, args)


@click.group(
    "perdure",
    cls=AppCommands,
    short_help="Durable runs: submit, watch, stop, why ...",
    epilog="Server and prefix are those given to perdure.install(app). --url names another server.",
)
@click.pass_context
def perdure_on_app(ctx: click.Context) -> None:
    """Manage durable, long-running goals on this Celery app."""
    from perdure.worker.runtime.runtime import engine_of

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    ctx.meta[ENGINE] = engine_of(ctx.find_root().obj.app)


def engine_here() -> Runtime | None:
    """Return the ``Runtime`` of the app in ``celery -A APP perdure``.

    Return None if the program is ``perdure``, or if no command runs.
    """
    context = click.get_current_context(silent=True)
    engine: Runtime | None = None if context is None else context.meta.get(ENGINE)
    return engine


def program() -> str:
    """Return the program's name: ``perdure`` or ``celery -A APP perdure``.

    ``APP`` is the app's name in the current command line, or the word APP if it is unknown. The
    result is ``perdure`` if no command runs.
    """
    context = click.get_current_context(silent=True)
    return (
        "perdure"
        if context is None or ENGINE not in context.meta
        else f"celery -A {_app_name(context)} perdure"
    )


def _app_name(ctx: click.Context) -> str:
    app = ctx.find_root().params.get("app")
    return shlex.quote(app) if isinstance(app, str) else "APP"
