"""The command ``show``: a run's state, history, events and artifacts.

``show --output`` writes the transcript to a JSON file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.flows.core.files import BYTES
from perdure.flows.core.outcomes import SAY, Turn
from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands import inbox
from perdure.worker.cli.commands.prompt import print_prompt
from perdure.worker.cli.downloads import write, write_file
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.presentation.questions import what
from perdure.worker.presentation.text import (
    clock,
    count,
    duration,
    lines,
    moment,
    parked_text,
    plain,
    progress_of,
    since,
    value_text,
    waits_for_code,
    waits_for_provider,
)
from perdure.worker.presentation.timeline import Row, command_text, row_of
from perdure.worker.presentation.usage import budgets, facts, used, used_below, used_in_all

if TYPE_CHECKING:
    from perdure.flows.core.files import FileReference
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.run import Run
    from perdure.worker.domain.transcript import Transcript, TranscriptTurn


#: How a wait is described whose beginning is known, by what the run waits for.
WAITS_SINCE = {"provider": waits_for_provider, "code": waits_for_code}
#: Rounds that ``show`` lists.
NEWEST_ROUNDS = 10
#: Steps of a run whose events are read for this list: the client parses some 10,000 a second.
FEW_STEPS = 1_000


def write_transcript(document: Transcript, file: Path) -> None:
    """Write the transcript of a run to a JSON file, and print on stderr what was written.

    The file is replaced atomically, so a failure leaves its old content.

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


def _milliseconds(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp() * 1000


def described(
    run: Run,
    models: str = "",
    artifacts: Mapping[str, int] | None = None,
    unread: Mapping[str, int] | None = None,
    children: Mapping[str, int] | None = None,
    files: Sequence[FileReference] = (),
) -> list[tuple[str, str]]:
    """Return the names and values that ``perdure show`` prints about a run."""
    details = run.details
    pairs = [
        ("run", run.id),
        ("flow", plain(run.flow)),
        ("goal", plain(run.goal)),
        *([("carries out", plain(run.title))] if run.details.get("call") else []),
        ("status", run.status_text),
    ]
    position = "at" if run.status.ended else "next"
    pairs.append(("step", f"{run.state.step}, {position} {run.state.current_node}"))
    if details.get("forked"):
        pairs.append(("forked", _origin_of(details["forked"])))
    if details.get("generation"):
        pairs.append(("generation", f"{details['generation']}: the run was renewed"))
    if details.get("forgotten"):
        pairs.append(("history", _left_of(details)))
    if details.get("owner"):
        held_for = duration(since(details["claimed_at"]))
        claim = f"on {details['owner']}, attempt {details['attempt']}, for {held_for}"
        pairs.append(("in flight", claim))
    if run.phase == "waiting":
        until = f" until {moment(details['waiting_until'])}" if details.get("waiting_until") else ""
        is_paused = details.get("waiting_for") == "paused"
        reason = f"{details.get('waiting_for', '')}{until}".strip()
        if (waits := WAITS_SINCE.get(details.get("waiting_for", ""))) is not None:
            began, again = (
                _milliseconds(details.get(name)) for name in ("waiting_since", "waiting_until")
            )
            reason = waits(began, again).removeprefix("waits ")
        if short := details.get("waits_for_budget"):
            reason = (
                f"for {short['budget']} of run {short['of']}; to add: "
                f"{program()} add {short['of']} {short['budget']}=AMOUNT"
            )
        unpause = f"the flow is paused; to continue: {program()} flows unpause {run.flow}"
        pairs.append(("waits", unpause if is_paused else reason))
    if run.phase == "parked":
        pairs.append(("waits", parked_text(details)))
    if unread:
        counts = [f"{plain(name)} {number}" for name, number in unread.items()]
        pairs.append(("unread", ", ".join(counts)))
    if children:
        counts = [f"{number:,} {status}" for status, number in children.items()]
        pairs.append(("children", f"{', '.join(counts)}; see {program()} tree {run.id}"))
    if details.get("topic"):
        pairs.append(("topic", details["topic"]))
    if details.get("model"):
        pairs.append(("chosen model", plain(details["model"])))
    if details.get("parent"):
        pairs.append(("parent", details["parent"]))
    reported = details.get("progress")
    text = reported.get("text") if isinstance(reported, dict) else None
    progress = " ".join(plain(str(part)) for part in (progress_of(reported), text) if part)
    pairs += [("progress", progress)] if progress else []
    if details.get("last_error") and not run.error:
        pairs.append(("last failure", plain(details["last_error"])))
    waiting = PendingInterrupt.of(run)
    if run.status.value == "interrupted" and waiting is not None:
        pairs += inbox.pairs(waiting)
    if run.status.value == "stopped":
        cause = "".join(
            f", {name} {plain(str(details[key]))}"
            for name, key in (("by", "stop_by"), ("because", "stop_reason"))
            if details.get(key)
        )
        stopped_at = moment(details["stopped_at"]) if "stopped_at" in details else ""
        pairs.append(("stopped", f"{stopped_at}{cause}"))
        if details.get("in_doubt"):
            pairs.append(("in doubt", _in_flight_at_stop(details["in_doubt"])))
        pairs += [("will ask", what(waiting))] if waiting is not None else []
        pairs.append(("go on", f"{program()} resume {run.id}"))
    if details.get("resumed_by"):
        pairs.append(
            ("resumed", f"{moment(details['resumed_at'])} by {plain(details['resumed_by'])}")
        )
    if details.get("traceback"):
        pairs.append(("traceback", "\n" + lines(details["traceback"])))
    if "unfinished" in details:
        pairs.append(
            ("go on", f"{program()} resume {run.id} --add cycles={details['unfinished']['cycles']}")
        )
    if run.error:
        pairs += [("error", plain(run.error)), ("try again", f"{program()} retry {run.id}")]
    pairs += [("model", models)] if models else []
    pairs += (
        [("used", used_in_all(details["spent"]))] if used_in_all(details.get("spent", {})) else []
    )
    pairs += [("below", used_below(run))] if used_below(run) else []
    pairs += [("budget", text) for text in budgets(run)]
    pairs += (
        [("inputs", plain(json.dumps(dict(run.inputs), ensure_ascii=False)))] if run.inputs else []
    )
    pairs += (
        [("labels", ", ".join(f"{plain(key)}={plain(value)}" for key, value in run.labels.items()))]
        if run.labels
        else []
    )
    pairs += [("submitted", moment(run.created_at))]
    if details.get("ended_at"):
        pairs.append(("took", duration((run.updated_at - run.created_at).total_seconds())))
    pairs += [
        ("file", f"{plain(each.name)} ({each.media_type}, {each.bytes:,} bytes)") for each in files
    ]
    sizes = [
        f"{plain(name)} ({size:,} bytes)"
        for name, size in (artifacts or {}).items()
        if not name.startswith(BYTES)
    ]
    pairs += [("artifacts", ", ".join(sizes))] if sizes else []
    if run.status.value == "completed":
        pairs.append(("answer", value_text(run.answer)))
    return pairs


def _in_flight_at_stop(doubt: str) -> str:
    """Return a sentence about the round that was in flight when its run was stopped.

    ``doubt`` names this round as ``step/node/attempt``.
    """
    step, _, rest = doubt.partition("/")
    node, _, attempt = rest.rpartition("/")
    return (
        f"{doubt}: step {step} ({plain(node)}, attempt {attempt}) was in flight at the stop; "
        "its effects may or may not have happened"
    )


def _models(events: Iterable[Event]) -> str:
    """Return the names of the models that a run's rounds used, in the order of first use."""
    return ", ".join(
        dict.fromkeys(
            plain(str(event.data["model"])) for event in events if event.data.get("model")
        )
    )


def _origin_of(forked: Mapping[str, Any]) -> str:
    """Return where a run was forked, as a text."""
    spent = used(forked["spent"])
    before = f", which had used {spent}" if spent else ""
    return f"from {forked['run']} before step {forked['step']}{before}"


def _left_of(details: Mapping[str, Any]) -> str:
    """Return a sentence that says which turns of a run's history are left."""
    turns, forgotten = details["turns"], details["forgotten"]
    return f"{turns - forgotten} of {count(turns, 'turn')} are left; the older ones are gone"


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
    """Print the newest rounds of a run, each with its step, its outcome and its duration."""
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
    """Return the facts about a round that ``perdure show`` prints below its event.

    They are the round's command, observation digest, usage, duration and attempt.
    """
    data = event.data
    command = [command_text(data)] if "observation" in data and "command" in data else []
    observation = [f"observation {str(data['digest'])[:12]}"] if data.get("digest") else []
    took = [f"took {duration(row.took)}"] if row.took is not None else []
    return [*map(plain, (*command, *observation, *facts(data))), *took, f"attempt {row.attempt}"]
