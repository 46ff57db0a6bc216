"""The commands ``send`` and ``thread``, for the messages of a conversation."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.commands.submit import amounts, pairs
from perdure.worker.cli.commands.watch import watch_until_end
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for
from perdure.worker.domain.run import RunStatus
from perdure.worker.presentation.text import plain


@click.command("send")
@click.argument("thread")
@click.argument("text", metavar="TEXT")
@click.option("--flow", metavar="FLOW", help="Flow of a new run. [default: that of its last run]")
@click.option("--input", "texts", metavar="KEY=TEXT", multiple=True, help="Input of a new run.")
@click.option("--label", "labels", metavar="K=V", multiple=True, help="Label for a new run.")
@click.option(
    "--budget",
    "budgets",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="Limit for a new run, as for submit.",
)
@click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Picture, document or text of a new run, as for submit.",
)
@click.option("--key", metavar="KEY", help="Your own id of the message: it is stored once.")
@click.option("--by", metavar="NAME", help="Who sends it. [default: your login name]")
@click.option("--watch", is_flag=True, help="Watch the run until it ends.")
@json_option
@url_option
@click.pass_context
def send_command(
    context: click.Context,
    thread: str,
    text: str,
    flow: str | None,
    texts: tuple[str, ...],
    labels: tuple[str, ...],
    budgets: tuple[str, ...],
    files: tuple[str, ...],
    key: str | None,
    by: str | None,
    watch: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Send TEXT to the conversation THREAD.

    Its live run hears the message. If there is none, a new run of FLOW begins, and knows the
    messages before.

    \b
    perdure send ada "and what about March?" --flow assistant --watch
    """
    with client_for(url) as client:
        sent = client.send(
            thread,
            text,
            flow=flow,
            inputs=pairs(texts, "--input") or None,
            key=key,
            labels=pairs(labels, "--label") or None,
            budgets=amounts(budgets, "--budget") or None,
            submitted_by=by or name_for(client),
            files=files or None,
        )
        waits = not sent.started and client.get(sent.run_id).status is RunStatus.INTERRUPTED
        if watch:
            click.echo(f"run {sent.run_id}", err=True)
            context.exit(watch_until_end(client, sent.run_id, as_json, url))
    if as_json:
        output.document(sent.to_dict())
        return
    click.echo(sent.run_id)
    what = "begins with it" if sent.started else "hears it in its next round"
    follow = f"to follow it: {output.follow_hint(sent.run_id, url)}"
    if waits:
        what = "waits for an answer, and hears it after that"
        follow = f"to answer: {program()} inbox"
    click.echo(f"the run {what}; {follow}", err=True)


@click.command("thread")
@click.argument("thread")
@json_option
@url_option
def thread_command(thread: str, as_json: bool, url: str | None) -> None:
    """Show the messages of the conversation THREAD, oldest first.

    Its runs: perdure list --thread THREAD
    """
    with client_for(url) as client:
        messages = client.conversation(thread)
    if as_json:
        output.document(
            [{"role": each.role, "text": each.text, "run_id": each.run_id} for each in messages]
        )
        return
    if not messages:
        click.echo(f"nothing was sent to the thread {thread!r} yet", err=True)
    for each in messages:
        who = "you" if each.role == "user" else f"run {each.run_id}"
        click.echo(f"{who}: {plain(each.text)}")
