"""resume: go on with a run that waits for a person, giving the answer, or with a stopped one."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.options import json_option, run_argument, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id
from worker.cli.stop import name_for
from worker.cli.submit import amounts, follow_hint

if TYPE_CHECKING:
    from worker.client import Client

#: What --refuse stands for where no words follow it.
NO_WORDS = ""


@click.command("resume")
@run_argument
@click.option("--answer", metavar="JSON", help="What the run asked for, as JSON: --answer '\"yes\"' for a text.")
@click.option("--approve", is_flag=True, help="Let the command that it asks about be carried out, exactly as it is.")
@click.option("--refuse", metavar="[WORDS]", is_flag=False, flag_value=NO_WORDS, help="Do not; the words are told to the controller.")
@click.option("--edit", metavar="JSON", help="Let it be carried out with these arguments instead: an object.")
@click.option(
    "--add",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="Raise a budget of the run: --add tokens=20000; or, of an unfinished one, its limit: --add cycles=10.",
)
@click.option("--interrupt", metavar="ID", help="Only if it still asks this; `holdfast inbox` shows the id.")
@click.option("--by", metavar="NAME", help="Who answers; your login name by default. A control room knows it by the token.")
@json_option
@url_option
def resume_command(
    run_id: str,
    answer: str | None,
    approve: bool,
    refuse: str | None,
    edit: str | None,
    add: tuple[str, ...],
    interrupt: str | None,
    by: str | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Go on with RUN, which is interrupted (the answer goes to the node that asked), stopped, or unfinished.

    What it asks, and how to answer, say `holdfast inbox` and `holdfast show RUN`.
    """
    given = [
        name
        for name, value in (("--approve", approve or None), ("--refuse", refuse), ("--edit", edit), ("--answer", answer))
        if value is not None
    ]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} are two answers; give one.")
    value = _answer(answer, approve, refuse, edit)
    more = amounts(add, "--add")
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        if given and given != ["--answer"]:
            interrupt = asked_for_approval(client, run_id, given[0], interrupt)
        run = client.resume(run_id, value, more, interrupt, by or name_for(client))
    if as_json:
        output.document(run.to_dict())
    else:
        if run.status.ended:  # it had paused behind the node that ended it
            click.echo(f"{run.id} {'has completed' if run.finished else f'is {run.status_text}'}; see it: holdfast show {run.id}")
            return
        click.echo(f"{run.id} goes on at step {run.state.step}, {run.state.current_node}; {follow_hint(run.id, url)}")


def _answer(answer: str | None, approve: bool, refuse: str | None, edit: str | None) -> Any:
    """The answer as the run gets it; raises UsageError."""
    if approve:
        return "approve"
    if refuse is not None:
        return {"refuse": refuse} if refuse != NO_WORDS else "refuse"
    if edit is not None:
        args = _read("--edit", edit)
        if not isinstance(args, dict):
            raise click.UsageError(f"--edit expects the arguments as a JSON object, it got {edit!r}.")
        return {"edit": args}
    return None if answer is None else _read("--answer", answer)


def asked_for_approval(client: Client, run_id: str, option: str, interrupt: str | None) -> str | None:
    """The id of the approval that the run asks for, so that it answers no other; raises UsageError where it asks for none."""
    from worker.cli.on_app import program
    from worker.waiting import Waiting
    from worker.words.asked import what

    run = client.get(run_id)
    waiting = Waiting.of(run)
    if waiting is None:
        if run.status.value in ("interrupted", "stopped"):
            raise click.UsageError(f"{option} answers an approval; run {run_id} is {run.status.value} and asks nothing.")
        return interrupt  # it is not possible now at all, which resume says
    if waiting.kind != "approval":
        raise click.UsageError(f"{option} answers an approval; run {run_id} asks: {what(waiting)}. Answer it: {waiting.how(program())[0]}")
    return interrupt or waiting.id


def _read(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if option == "--edit":
            raise click.UsageError(f"--edit expects the arguments as a JSON object, it got {text!r}.") from error
        quoted = shlex.quote(json.dumps(text, ensure_ascii=False))
        raise click.UsageError(f"--answer expects JSON, it got {text!r}. A text stands in double quotes: --answer {quoted}") from error
