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


def described(
    run: Run,
    models: str = "",
    artifacts: Mapping[str, int] | None = None,
    unread: Mapping[str, int] | None = None,
    children: Mapping[str, int] | None = None,
    files: Sequence[FileReference] = (),
) -> list[tuple[str, str]]:
    """Return the names and values that ``perdure show`` prints about a run."""
    return [
        *_describe_purpose(run),
        *_describe_position(run),
        *_describe_wait(run),
        *_describe_relations(run, unread or {}, children or {}),
        *_describe_progress(run),
        *_describe_interruption(run),
        *_describe_failure(run),
        *_describe_usage(run, models),
        *_describe_submission(run),
        *_describe_output(run, artifacts or {}, files),
    ]


def _describe_purpose(run: Run) -> list[tuple[str, str]]:
    """Return which run it is, what it is for, and its status."""
    pairs = [("run", run.id), ("flow", plain(run.flow)), ("goal", plain(run.goal))]
    if run.details.get("call"):
        pairs.append(("carries out", plain(run.title)))
    return [*pairs, ("status", run.status_text)]


def _describe_position(run: Run) -> list[tuple[str, str]]:
    """Return where a run stands: its step, its origin, its history and its worker."""
    details = run.details
    position = "at" if run.status.ended else "next"
    pairs = [("step", f"{run.state.step}, {position} {run.state.current_node}")]
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
    return pairs


def _describe_wait(run: Run) -> list[tuple[str, str]]:
    """Return what a waiting or parked run waits for."""
    if run.phase == "parked":
        return [("waits", parked_text(run.details))]
    if run.phase != "waiting":
        return []
    details = run.details
    if details.get("waiting_for") == "paused":
        unpause = f"{program()} flows unpause {run.flow}"
        return [("waits", f"the flow is paused; to continue: {unpause}")]
    if short := details.get("waits_for_budget"):
        reason = (
            f"for {short['budget']} of run {short['of']}; to add: "
            f"{program()} add {short['of']} {short['budget']}=AMOUNT"
        )
    elif (waits := WAITS_SINCE.get(details.get("waiting_for", ""))) is not None:
        began, again = (
            _milliseconds(details.get(name)) for name in ("waiting_since", "waiting_until")
        )
        reason = waits(began, again).removeprefix("waits ")
    else:
        until = f" until {moment(details['waiting_until'])}" if details.get("waiting_until") else ""
        reason = f"{details.get('waiting_for', '')}{until}".strip()
    return [("waits", reason)]


def _milliseconds(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp() * 1000


def _describe_relations(
    run: Run, unread: Mapping[str, int], children: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return the signals, child runs, topic, model and parent of a run."""
    details = run.details
    pairs = []
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
    return pairs


def _describe_progress(run: Run) -> list[tuple[str, str]]:
    """Return the progress that a run reported, and its last failure unless it ended the run."""
    pairs = []
    reported = run.details.get("progress")
    text = reported.get("text") if isinstance(reported, dict) else None
    progress = " ".join(plain(str(part)) for part in (progress_of(reported), text) if part)
    if progress:
        pairs.append(("progress", progress))
    if run.details.get("last_error") and not run.error:
        pairs.append(("last failure", plain(run.details["last_error"])))
    return pairs


def _describe_interruption(run: Run) -> list[tuple[str, str]]:
    """Return what a run asks a person, how it was stopped, and who resumed it."""
    details = run.details
    pairs = []
    waiting = PendingInterrupt.of(run)
    if run.status.value == "interrupted" and waiting is not None:
        pairs += inbox.pairs(waiting)
    if run.status.value == "stopped":
        pairs += _describe_stop(run, waiting)
    if details.get("resumed_by"):
        resumed_at = moment(details["resumed_at"])
        pairs.append(("resumed", f"{resumed_at} by {plain(details['resumed_by'])}"))
    return pairs


def _describe_stop(run: Run, waiting: PendingInterrupt | None) -> list[tuple[str, str]]:
    """Return when, by whom and why a run was stopped, and how it goes on.

    ``waiting`` is the question that the run will ask again.
    """
    details = run.details
    cause = "".join(
        f", {name} {plain(str(details[key]))}"
        for name, key in (("by", "stop_by"), ("because", "stop_reason"))
        if details.get(key)
    )
    stopped_at = moment(details["stopped_at"]) if "stopped_at" in details else ""
    pairs = [("stopped", f"{stopped_at}{cause}")]
    if details.get("in_doubt"):
        pairs.append(("in doubt", _in_flight_at_stop(details["in_doubt"])))
    if waiting is not None:
        pairs.append(("will ask", what(waiting)))
    return [*pairs, ("go on", f"{program()} resume {run.id}")]


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


def _describe_failure(run: Run) -> list[tuple[str, str]]:
    """Return why a run failed or did not finish, and the command that continues it."""
    details = run.details
    pairs = []
    if details.get("traceback"):
        pairs.append(("traceback", "\n" + lines(details["traceback"])))
    if "unfinished" in details:
        cycles = details["unfinished"]["cycles"]
        pairs.append(("go on", f"{program()} resume {run.id} --add cycles={cycles}"))
    if run.error:
        pairs.append(("error", plain(run.error)))
        pairs.append(("try again", f"{program()} retry {run.id}"))
    return pairs


def _describe_usage(run: Run, models: str) -> list[tuple[str, str]]:
    """Return the models of a run, and what it and the runs below it used of their budgets."""
    pairs = []
    if models:
        pairs.append(("model", models))
    if spent := used_in_all(run.details.get("spent", {})):
        pairs.append(("used", spent))
    if below := used_below(run):
        pairs.append(("below", below))
    return [*pairs, *(("budget", text) for text in budgets(run))]


def _describe_submission(run: Run) -> list[tuple[str, str]]:
    """Return the inputs and labels of a run, when it was submitted, and how long it took."""
    pairs = []
    if run.inputs:
        pairs.append(("inputs", plain(json.dumps(dict(run.inputs), ensure_ascii=False))))
    if run.labels:
        labels = [f"{plain(key)}={plain(value)}" for key, value in run.labels.items()]
        pairs.append(("labels", ", ".join(labels)))
    pairs.append(("submitted", moment(run.created_at)))
    if run.details.get("ended_at"):
        pairs.append(("took", duration((run.updated_at - run.created_at).total_seconds())))
    return pairs


def _describe_output(
    run: Run, artifacts: Mapping[str, int], files: Sequence[FileReference]
) -> list[tuple[str, str]]:
    """Return the files, artifacts and answer of a run."""
    pairs = [
        ("file", f"{plain(each.name)} ({each.media_type}, {each.bytes:,} bytes)") for each in files
    ]
    sizes = [
        f"{plain(name)} ({size:,} bytes)"
        for name, size in artifacts.items()
        if not name.startswith(BYTES)
    ]
    if sizes:
        pairs.append(("artifacts", ", ".join(sizes)))
    if run.status.value == "completed":
        pairs.append(("answer", value_text(run.answer)))
    return pairs


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
