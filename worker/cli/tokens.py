"""token: create, list and revoke the tokens of the HTTP API and the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

import click

from worker.cli import output
from worker.cli.groups import Commands
from worker.cli.many import age
from worker.cli.options import json_option, url_option
from worker.cli.server import state_client_for
from worker.cli.stop import login_name
from worker.words.texts import moment, plain

SCOPES = ("read", "submit", "answer", "stop", "admin")


class TokenCommands(Commands):
    """``token`` and its words."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {
        "create": ("tokens", "Make a token; it is printed this one time."),
        "list": ("tokens", "The tokens there are, without their secrets."),
        "revoke": ("tokens", "Let a token open nothing any more."),
        "sign-out": ("tokens", "Sign everybody out of the dashboard."),
    }


@click.command("token", cls=TokenCommands, epilog="docs/access.md says what each scope is good for.")
def token_command() -> None:
    """Who may use the HTTP API and the dashboard. Without any token, whoever reaches the server on this machine may do everything."""


@click.command("create")
@click.argument("name")
@click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=True, help="What it is good for; repeat it for more.")
@click.option("--expires", metavar="AGE", callback=age, help="After which it opens nothing: 12h, 30d, 52w. Never, by default.")
@json_option
@url_option
def create_command(name: str, scopes: tuple[str, ...], expires: timedelta | None, as_json: bool, url: str | None) -> None:
    """Make a token for NAME, a person or a service, and print it. It cannot be shown again."""
    from worker.client.tokens import Tokens

    with state_client_for(url) as client:
        made = Tokens(client).create(name, scopes, expires, login_name())
    if as_json:
        output.document({**made.token.to_dict(), "token": made.text})
        return
    click.echo(f"token {made.token.id} of {name}; keep it, it is shown only now:", err=True)
    click.echo(made.text)


@click.command("list")
@json_option
@url_option
def list_command(as_json: bool, url: str | None) -> None:
    """The tokens there are, oldest first."""
    from worker.client.tokens import Tokens

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
    output.table(columns, rows, "scopes", "no tokens: whoever reaches a server on this machine may do everything", spare=("by", "created"))


@click.command("revoke")
@click.argument("token_id", metavar="ID")
@json_option
@url_option
def revoke_command(token_id: str, as_json: bool, url: str | None) -> None:
    """Let the token ID open nothing any more, from the next request on; who is signed in with it is signed out."""
    from worker.client.tokens import Tokens

    with state_client_for(url) as client:
        tokens = Tokens(client)
        tokens.revoke(token_id)
        left = tokens.any()
    if as_json:
        output.document({"id": token_id, "revoked": True})
        return
    click.echo(f"token {token_id} is revoked")
    if not left:
        click.echo("it was the last one: whoever reaches a server on this machine may do everything now", err=True)


@click.command("sign-out")
@json_option
@url_option
def sign_out_command(as_json: bool, url: str | None) -> None:
    """Sign everybody out of the dashboard, on every server; tokens stay good."""
    from worker.client.tokens import Tokens

    with state_client_for(url) as client:
        Tokens(client).sign_everybody_out()
    if as_json:
        output.document({"signed_out": True})
    else:
        click.echo("everybody is signed out of the dashboard")
