"""The command ``resume``: continue an interrupted, stopped or unfinished run."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.commands.submit import amounts
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import client_for, known_id

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi

#: The value of --refuse without a reason.
NO_WORDS = ""


@click.command("resume")
@run_argument
@click.option(
    "--answer",
    metavar="JSON",
    help="Answer the run's question, as JSON. A single word is a text; other text needs quotes: "
    "'\"yes, but later\"'.",
)
@click.option(
    "--approve",
    is_flag=True,
    help="Approve the pending command with its arguments unchanged.",
)
@click.option(
    "--refuse",
    metavar="[WORDS]",
    is_flag=False,
    flag_value=NO_WORDS,
    help="Refuse the pending command. The controller gets the words.",
)
@click.option(
    "--edit", metavar="JSON", help="Approve the pending command with these arguments (an object)."
)
@click.option(
    "--add",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="Raise a budget (tokens=20000), or the limit of an unfinished run (cycles=10).",
)
@click.option(
    "--interrupt", metavar="ID", help="Answer only this interrupt; `perdure inbox` shows the id."
)
@click.option(
    "--by",
    metavar="NAME",
    help="Who answers. [default: your login name; over HTTP, the token's name]",
)
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
    """Continue RUN, which is interrupted, stopped or unfinished.

    An answer goes to the node that asked. `perdure inbox` and `perdure show RUN` show the question
    and how to answer it.
    """
    answer_options = [
        name
        for name, value in (
            ("--approve", approve or None),
            ("--refuse", refuse),
            ("--edit", edit),
            ("--answer", answer),
        )
        if value is not None
    ]
    if len(answer_options) > 1:
        raise click.UsageError(
            f"{answer_options[0]} and {answer_options[1]} are two answers; give one."
        )
    value = _answer(answer, approve, refuse, edit)
    more = amounts(add, "--add")
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        if answer_options and answer_options != ["--answer"]:
            interrupt = asked_for_approval(client, run_id, answer_options[0], interrupt)
        run = client.resume(run_id, value, more, interrupt, by or name_for(client))
    if as_json:
        output.document(run.to_dict())
    else:
        if run.status.ended:  # It was interrupted after the node that ended it.
            ending = "has completed" if run.finished else f"is {run.status_text}"
            click.echo(f"{run.id} {ending}; to see it: {program()} show {run.id}")
            return
        click.echo(
            f"{run.id} continues at step {run.state.step}, {run.state.current_node}; "
            f"to follow it: {output.follow_hint(run.id, url)}"
        )


def _answer(answer: str | None, approve: bool, refuse: str | None, edit: str | None) -> Any:
    """Return the answer in the options of the command, as JSON data.

    Returns:
        The answer. None if no option gives an answer.

    Raises:
        UsageError: The text of an option is not JSON, or the JSON of --edit is not an object.
    """
    if approve:
        return "approve"
    if refuse is not None:
        return {"refuse": refuse} if refuse != NO_WORDS else "refuse"
    if edit is not None:
        args = read_json("--edit", edit)
        if not isinstance(args, dict):
            raise click.UsageError(f"--edit expects the arguments as a JSON object, got {edit!r}.")
        return {"edit": args}
    return None if answer is None else read_json("--answer", answer)


def asked_for_approval(
    client: ClientApi, run_id: str, option: str, interrupt: str | None
) -> str | None:
    """Return the id of the approval that the run waits for.

    Pass this id to ``client.resume``, so that a later approval is not answered by mistake.

    Args:
        client: The client that reads the run.
        run_id: The run's id.
        option: The option that gives the answer, for the error text.
        interrupt: The value of ``--interrupt``, or None without this option.

    Returns:
        ``interrupt`` if it is not None, else the id. If the run is neither interrupted nor stopped,
        the result is ``interrupt``, even None, and ``client.resume`` raises the error.

    Raises:
        UsageError: The run does not ask for an approval.
    """
    from perdure.worker.domain.interrupt import PendingInterrupt
    from perdure.worker.presentation.questions import what

    run = client.get(run_id)
    waiting = PendingInterrupt.of(run)
    if waiting is None:
        if run.status.value in ("interrupted", "stopped"):
            raise click.UsageError(
                f"{option} answers an approval; "
                f"run {run_id} is {run.status.value} and asks nothing."
            )
        return interrupt
    if waiting.kind != "approval":
        raise click.UsageError(
            f"{option} answers an approval; run {run_id} asks: {what(waiting)}. "
            f"To answer: {waiting.how_in_one_line(program())}"
        )
    return interrupt or waiting.id


#: Maximum number of characters of an invalid text that the error shows.
SHOWN = 80
#: A single word, which is read as a text where an answer or a payload is expected.
WORD = re.compile(r"[^\W\d_][\w.-]*")
#: Words that are no text: a Python user who types them means a JSON value.
NO_TEXTS = ("True", "False", "None")


def read_json(option: str, text: str) -> Any:
    """Parse the JSON text of an option. Return the value.

    A single word such as ``yes`` needs no quotes: it is returned as a string, except for ``--edit``
    and for the words in NO_TEXTS. With ``@FILE`` as text, the JSON is read from a file, and with
    ``@-`` from stdin, because an argument of a command has at most 128 KiB.

    Raises:
        UsageError: The text is not JSON, or the file cannot be read. The message says what to do.
    """
    if text.startswith("@"):
        text, where = _read(option, text[1:]), f" in {text[1:]}"
    else:
        where = ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if option != "--edit" and not where and WORD.fullmatch(text) and text not in NO_TEXTS:
            return text
        shown = f"{text[:SHOWN]!r}{'...' if len(text) > SHOWN else ''}{where} ({error})"
        if option == "--edit":
            raise click.UsageError(
                f"--edit expects the arguments as a JSON object, got {shown}."
            ) from error
        quoted = shlex.quote(json.dumps(text, ensure_ascii=False))
        advice = (
            f" Put text in double quotes: {option} {quoted}"
            if not where and len(text) <= SHOWN
            else ""
        )
        raise click.UsageError(f"{option} expects JSON, got {shown}.{advice}") from error


def _read(option: str, name: str) -> str:
    try:
        with click.open_file(name, encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option} @{name}: {error}") from error
