"""The command ``notes``: list, show, put and delete notes for later runs."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.retry import yes_option
from perdure.worker.cli.exit_codes import NOT_FOUND
from perdure.worker.cli.main import Commands
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for
from perdure.worker.presentation.text import count, moment, plain

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi

#: Maximum namespaces among which the nearest to an unknown one is searched.
NAMESPACES = 1000


class NoteCommands(Commands):
    """The group of ``notes`` and its subcommands."""

    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = {
        "list": (__name__, "List the namespaces that have notes."),
        "show": (__name__, "Show the notes of a namespace."),
        "put": (__name__, "Keep a note for later runs."),
        "delete": (__name__, "Delete a note, or all of a namespace."),
    }


@click.command("notes", cls=NoteCommands, epilog="docs/guides/notes.md describes notes.")
def notes_command() -> None:
    """Read and delete what runs keep for later runs.

    These are the notes on the server of the runs. Those of a flow with a note_store of its own are
    elsewhere.
    """


@click.command("list")
@click.argument("prefix", metavar="[PREFIX]", default="")
@click.option("--limit", default=100, show_default=True, help="The most namespaces to list.")
@click.option("--after", metavar="NAMESPACE", help="Go on behind this namespace.")
@json_option
@url_option
def list_command(
    prefix: str, limit: int, after: str | None, as_json: bool, url: str | None
) -> None:
    """List the namespaces that have notes, or those that begin with PREFIX."""
    with client_for(url) as client:
        found = client.note_namespaces(prefix, limit, after)
    if as_json:
        output.document([each.to_dict() for each in found])
        return
    rows = [(each.namespace, str(each.notes), moment(each.newest)) for each in found]
    output.table(("namespace", "notes", "newest"), rows, "namespace", "no notes", ("newest",))


@click.command("show")
@click.argument("namespace")
@click.argument("words", nargs=-1)
@click.option("--limit", default=50, show_default=True, help="The most notes to show.")
@json_option
@url_option
def show_command(
    namespace: str, words: tuple[str, ...], limit: int, as_json: bool, url: str | None
) -> None:
    """Show the notes of NAMESPACE, newest first, or those that have one of WORDS."""
    with client_for(url) as client:
        found = client.notes(namespace, " ".join(words), limit)
        unknown = None if found else _unknown(client, namespace)
    if as_json:
        output.document([note.to_dict() for note in found])
    elif unknown is None:
        rows = [(note.key, plain(note.text), moment(note.at), note.run_id or "") for note in found]
        none = f"{namespace} has no note with {' or '.join(map(plain, words))}"
        columns = ("key", "text", "written", "run")
        output.table(columns, rows, "text", none, ("run", "written"))
    if unknown is not None:
        click.echo(unknown, err=True)
        raise click.exceptions.Exit(NOT_FOUND)


@click.command("put")
@click.argument("namespace")
@click.argument("text")
@click.option("--key", help="Its name. A note with the same key is replaced. [default: of TEXT]")
@json_option
@url_option
def put_command(namespace: str, text: str, key: str | None, as_json: bool, url: str | None) -> None:
    """Keep the note TEXT in NAMESPACE, for later runs."""
    with client_for(url) as client:
        note = client.put_note(namespace, text, key=key)
    if as_json:
        output.document(note.to_dict())
    else:
        click.echo(f"{note.key} is kept in {namespace}")


@click.command("delete")
@click.argument("namespace")
@click.argument("key", metavar="[KEY]", required=False)
@yes_option
@json_option
@url_option
def delete_command(
    namespace: str, key: str | None, yes: bool, as_json: bool, url: str | None
) -> None:
    """Delete the note KEY of NAMESPACE, or all its notes. Runs and their histories stay."""
    if key is None and not yes and sys.stdin.isatty() and sys.stdout.isatty():
        click.confirm(f"Delete all notes of {namespace}?", abort=True, err=True)
    with client_for(url) as client:
        deleted = client.forget_notes(namespace, key)
        unknown = None if deleted else _unknown(client, namespace)
    if as_json:
        output.document({"deleted": deleted})
    elif deleted:
        click.echo(f"{count(deleted, 'note')} of {namespace} deleted")
    if not deleted:
        one = f"{namespace} has no note {key!r}; see: perdure notes show {namespace}"
        click.echo(unknown or one, err=True)
        raise click.exceptions.Exit(NOT_FOUND)


def _unknown(client: ClientApi, namespace: str) -> str | None:
    """Return an error text if a namespace has no notes. The text suggests a similar namespace.

    Returns:
        The text. None if the namespace has notes.
    """
    first = client.note_namespaces(namespace, 1)  # the shortest of this prefix comes first
    if first and first[0].namespace == namespace:
        return None
    known = [each.namespace for each in client.note_namespaces(limit=NAMESPACES)]
    near = difflib.get_close_matches(namespace, [each.namespace for each in first] + known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see: perdure notes list"
    return f"{namespace} has no notes; {hint}"
