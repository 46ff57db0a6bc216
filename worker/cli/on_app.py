"""``celery -A APP holdfast ...``: the commands, for the server and prefix that Holdfast has on that app.

Celery imports this module at each ``celery`` command, so it imports nothing that takes time.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import click

from worker.cli import exits
from worker.cli.groups import COMMANDS, Commands
from worker.cli.shadow import shadowed

if TYPE_CHECKING:
    from worker.engine import Engine

#: Where the engine of the app is kept while a command runs.
ENGINE = "holdfast.engine"
#: What an app of one's own has another way for.
ELSEWHERE = {
    "worker": "celery -A {app} worker plays rounds beside the app's own tasks",
    "up": "the app has a server already; celery -A {app} worker starts a worker of it",
    "demo": "the demonstration has a server of its own; run: holdfast demo",
}


class AppCommands(Commands):
    """The commands but for those that start a worker or a server."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {name: told for name, told in COMMANDS.items() if name not in ELSEWHERE}

    def invoke(self, ctx: click.Context) -> Any:
        """Errors are told as a sentence, with Holdfast's exit codes."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit:
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(exits.DONE)
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(exits.told(error))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in ELSEWHERE:
            raise click.UsageError(f"{args[0]!r} is not for an app of one's own: {ELSEWHERE[args[0]].format(app=_app_name(ctx))}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    "holdfast",
    cls=AppCommands,
    short_help="Durable runs: submit, watch, stop, why ...",
    epilog="The server and the prefix are those that worker.install(app) was given; --url names another server.",
)
@click.pass_context
def holdfast_on_app(ctx: click.Context) -> None:
    """Durable, long-running goals, on this Celery app."""
    from worker.cli.exits import USAGE, Failed
    from worker.installing import engine_of

    fault = shadowed()
    if fault is not None:
        raise Failed(fault, USAGE)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    ctx.meta[ENGINE] = engine_of(ctx.find_root().obj.app)


def engine_here() -> Engine | None:
    """The engine of the app that ``celery -A`` named; None where the command is ``holdfast``."""
    context = click.get_current_context(silent=True)
    engine: Engine | None = None if context is None else context.meta.get(ENGINE)
    return engine


def program() -> str:
    """What one types to get at these commands again."""
    context = click.get_current_context(silent=True)
    return "holdfast" if context is None or ENGINE not in context.meta else f"celery -A {_app_name(context)} holdfast"


def _app_name(ctx: click.Context) -> str:
    given = ctx.find_root().params.get("app")
    return shlex.quote(given) if isinstance(given, str) else "APP"
