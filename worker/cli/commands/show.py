"""The command ``show``: a run's state, history, events, artifacts, files and prompts.

``show --output`` writes the transcript to a JSON file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.flows.core.files import BYTES
from perdure.flows.core.outcomes import SAY, Turn
from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.prompt import print_prompt
from perdure.worker.cli.downloads import write, write_file
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.cli.views.described_run import described
from perdure.worker.presentation.text import (
    clock,
    count,
    duration,
    lines,
    plain,
    value_text,
)
from perdure.worker.presentation.timeline import Row, command_text, row_of
from perdure.worker.presentation.usage import facts

if TYPE_CHECKING:
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.transcript import Transcript, TranscriptTurn


#: Maximum number of rounds that ``show`` lists.
NEWEST_ROUNDS = 10
#: Maximum number of steps of a run whose events are read for the list of rounds. The client parses
#: some 10,000 events a second.
FEW_STEPS = 1_000


def write_transcript(document: Transcript, file: Path) -> None:
    """Write a transcript to a JSON file. Print a summary on stderr.

    The file is written atomically. If that fails, the file keeps its old content.

    Raises:
        Failed: The file cannot be written.
    """
    write((json.dumps(document, indent=2) + "\n").encode(), file)
    click.echo(
        f"wrote {document['run']['id']} to {file}: "
        f"{count(len(document['history']), 'turn')}, {count(len(document['events']), 'event')}",
        err=True,
    )


@click.command("show")
@run_argument
@click.option("--transcript", is_flag=True, help="Include all turns of the history and all events.")
@click.option(
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the transcript to FILE as JSON.",
)
@click.option("--artifact", metavar="NAME", help="Print this artifact of the run.")
@click.option(
    "--file",
    "file_name",
    metavar="NAME",
    help="Write this file of the run to standard output, or to FILE with --output.",
)
@click.option(
    "--prompt",
    metavar="STEP",
    type=click.IntRange(min=0),
    help="Print what this step sends, or sent, to its model.",
)
@json_option
@url_option
def show_command(
    run_id: str,
    transcript: bool,
    file: Path | None,
    artifact: str | None,
    file_name: str | None,
    prompt: int | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Show the state and the answer of RUN; its history with --transcript."""
    with reader_for(url) as client:
        run_id = known_id(client, run_id)
        if artifact is not None:
            text = client.artifact(run_id, artifact)
            if as_json:
                output.document({"run": run_id, "artifact": artifact, "text": text})
            else:
                click.echo(lines(text) if sys.stdout.isatty() else text)
            return
        if file_name is not None:
            write_file(run_id, client.file(run_id, file_name), file, as_json)
            return
        if prompt is not None:
            print_prompt(client, run_id, prompt, as_json)
            return
        if file is not None:
            write_transcript(client.transcript(run_id), file)
            return
        run = client.get(run_id)
        # Only a run that has used something can have asked a model.
        has_spent = bool(run.details.get("spent"))
        reads_events = transcript or has_spent or run.state.step <= FEW_STEPS
        events = list(client.events(run_id, follow=False)) if reads_events and not as_json else []
        models = _models(events) if has_spent else ""
        artifacts = {} if as_json else client.artifacts(run_id)
        has_files = any(name.startswith(BYTES) for name in artifacts)
        files = client.files(run_id) if has_files else ()
        unread = client.unread(run_id) if run.details.get("received") and not as_json else {}
        document = client.transcript(run_id) if transcript else None
        has_children = bool(run.details.get("spent_below", {}).get("runs")) and not as_json
        children = client.tree(run_id, 1, 1).counts if has_children else {}
    if as_json:
        output.document(document if document is not None else run.to_dict())
        return
    pairs = described(run, models, artifacts, unread, children, files)
    output.fields(pairs, whole=("command", "will ask", "traceback"))
    if document is not None:
        _print_history(document["history"], run.details.get("forgotten", 0))
        _print_events(events)
    else:
        _print_rounds(run, events)


def _models(events: Iterable[Event]) -> str:
    """Return the models in a run's events as text, in order of first use."""
    return ", ".join(
        dict.fromkeys(
            plain(str(event.data["model"])) for event in events if event.data.get("model")
        )
    )


def _print_history(history: list[TranscriptTurn], forgotten: int) -> None:
    click.echo("\nhistory:")
    if forgotten:
        click.echo(f"(turns 1 to {forgotten} are gone)")
    for number, turn in enumerate(history, forgotten + 1):
        command = turn["command"]
        call = (
            f"{command['name']} {json.dumps(command['args'], ensure_ascii=False)}"
            if command
            else "(no command)"
        )
        told: Any = turn["observation"]
        said = None if command else Turn(None, told).said
        if said is not None:
            call = f"{told.get('by', 'a person')} says:" if SAY in told else "question:"
        click.echo(f"{number}. {plain(call)}")
        click.echo(f"   {plain(value_text(told if said is None else said))}")


def _print_events(events: list[Event]) -> None:
    click.echo("\nevents:")
    for event in events:
        row = row_of(event)
        click.echo(f"{clock(event.at)}  step {event.step}  {event.node}  {row.said}")
        if row.is_round:
            click.echo(f"    {'  '.join(_round_details(event, row))}")


def _print_rounds(run: Run, events: Sequence[Event]) -> None:
    """Print a run's newest rounds: step, node, result and duration.

    Print nothing if the run has no rounds. If the events were not read, because the run has more
    than FEW_STEPS steps, print the number of rounds.
    """
    rows = [(event, row_of(event)) for event in events]
    rounds = [(event, row) for event, row in rows if row.is_round]
    if not rounds:
        if run.state.step > FEW_STEPS:
            click.echo(
                f"\n{count(run.state.step, 'round')}; see {program()} show {run.id} --transcript"
            )
        return
    newest = rounds[-NEWEST_ROUNDS:]
    older = len(rounds) - len(newest)
    hint = f" (the newest of {len(rounds)}; all of them with --transcript)" if older else ""
    click.echo(f"\nrounds{hint}:")
    width = max(len(plain(event.node)) for event, _ in newest)
    for event, row in newest:
        took = f"  {duration(row.took)}" if row.took is not None else ""
        click.echo(f"{event.step:>4}  {plain(event.node):<{width}}  {row.said}{took}")


def _round_details(event: Event, row: Row) -> list[str]:
    """Return texts about a committed round: command, digest, usage, duration and attempt.

    ``perdure show --transcript`` prints them below the round's event. Unknown facts are left out.
    """
    data = event.data
    command = [command_text(data)] if "observation" in data and "command" in data else []
    observation = [f"observation {str(data['digest'])[:12]}"] if data.get("digest") else []
    took = [f"took {duration(row.took)}"] if row.took is not None else []
    return [*map(plain, (*command, *observation, *facts(data))), *took, f"attempt {row.attempt}"]
