"""The command ``token`` and its subcommands, for access tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.retry import age
from perdure.worker.cli.commands.stop import login_name
from perdure.worker.cli.main import Commands
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import state_client_for
from perdure.worker.presentation.text import moment, plain

SCOPES = (
    "read",
    "read-all",
    "submit",
    "answer",
    "answer-all",
    "stop",
    "signal",
    "admin",
    "sign-in",
)


class TokenCommands(Commands):
    """The click group ``token`` with its subcommands."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {
        "create": ("token", "Create a token and print it once."),
        "list": ("token", "List the tokens, without their secrets."),
        "revoke": ("token", "Revoke a token."),
        "sign-out": ("token", "Sign all users out of the dashboard."),
    }


@click.command("token", cls=TokenCommands, epilog="docs/operations/access.md describes the scopes.")
def token_command() -> None:
    """Manage the tokens of the HTTP API and the dashboard.

    Without tokens, every local user may do everything.
    """


@click.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="What the token allows. Can be repeated.",
)
@click.option(
    "--expires",
    metavar="AGE",
    callback=age,
    help="When the token expires: 12h, 30d, 52w from now. [default: never]",
)
@json_option
@url_option
def create_command(
    name: str, scopes: tuple[str, ...], expires: timedelta | None, as_json: bool, url: str | None
) -> None:
    """Create a token for NAME, a person or a service, and print it. It cannot be shown again."""
    from perdure.worker.client.tokens import Tokens

    with state_client_for(url) as client:
        created = Tokens(client).create(name, scopes, expires, login_name())
    if as_json:
        output.document({**created.token.to_dict(), "token": created.text})
        return
    click.echo(f"token {created.token.id} of {name}; save it, it is not shown again:", err=True)
    click.echo(created.text)


@click.command("list")
@json_option
@url_option
def list_command(as_json: bool, url: str | None) -> None:
    """List the tokens, oldest first."""
    from perdure.worker.client.tokens import Tokens

    with state_client_for(url) as client:
        tokens = Tokens(client).all()
    if as_json:
        output.document([token.to_dict() for token in tokens])
        return
    rows = [
        (
            token.id,
            token.name,
            ", ".join(scope for scope in SCOPES if scope in token.to_dict()["scopes"]),
            moment(token.created_at),
            plain(token.created_by or ""),
            moment(token.expires_at) if token.expires_at is not None else "never",
        )
        for token in tokens
    ]
    columns = ("token", "name", "scopes", "created", "by", "expires")
    output.table(
        columns,
        rows,
        "scopes",
        "no tokens: every local user may do everything",
        spare=("by", "created"),
    )


@click.command("revoke")
@click.argument("token_id", metavar="ID")
@json_option
@url_option
def revoke_command(token_id: str, as_json: bool, url: str | None) -> None:
    """Revoke the token ID, from the next request on. Its dashboard sessions end too."""
    from perdure.worker.client.tokens import Tokens

    with state_client_for(url) as client:
        tokens = Tokens(client)
        tokens.revoke(token_id)
        has_tokens = tokens.any()
    if as_json:
        output.document({"id": token_id, "revoked": True})
        return
    click.echo(f"token {token_id} is revoked")
    if not has_tokens:
        click.echo(
            "it was the last token: every local user may do everything now",
            err=True,
        )


@click.command("sign-out")
@json_option
@url_option
def sign_out_command(as_json: bool, url: str | None) -> None:
    """Sign all users out of the dashboard, on every server. Their tokens stay valid."""
    from perdure.worker.client.tokens import Tokens

    with state_client_for(url) as client:
        Tokens(client).sign_everybody_out()
    if as_json:
        output.document({"signed_out": True})
    else:
        click.echo("all users are signed out of the dashboard")
