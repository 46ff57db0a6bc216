"""show: everything about one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli import asked, output
from worker.cli.export import written
from worker.cli.options import json_option, run_argument, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id
from worker.waiting import Waiting
from worker.words.asked import what
from worker.words.costs import budgets, facts, used_in_all
from worker.words.numbers import progress_of
from worker.words.story import Row, command_text, row_of
from worker.words.texts import clock, duration, lines, moment, plain, since, value_text, waits_for_provider

if TYPE_CHECKING:
    from worker.event import Event
    from worker.run import Run


@click.command("show")
@run_argument
@click.option("--transcript", is_flag=True, help="With every turn of its history and every event.")
@click.option(
    "--output", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="The transcript as JSON, into FILE."
)
@click.option("--artifact", metavar="NAME", help="What it keeps whole under this name, as it is.")
@json_option
@url_option
def show_command(run_id: str, transcript: bool, file: Path | None, artifact: str | None, as_json: bool, url: str | None) -> None:
    """Everything about RUN."""
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        if artifact is not None:
            text = client.artifact(run_id, artifact)
            if as_json:
                output.document({"run": run_id, "artifact": artifact, "text": text})
            else:
                click.echo(lines(text) if sys.stdout.isatty() else text)
            return
        if file is not None:
            written(client.transcript(run_id), file)
            return
        run = client.get(run_id)
        played = client.events(run_id, follow=False) if run.details.get("spent") and not as_json else ()
        models = _models(played)
        artifacts = {} if as_json else client.artifacts(run_id)
        whole = client.transcript(run_id) if transcript else None
        events = list(client.events(run_id, follow=False)) if transcript and not as_json else []
    if as_json:
        output.document(whole if whole is not None else run.to_dict())
        return
    output.fields(described(run, models, artifacts), whole=("command", "will ask", "traceback"))
    if whole is not None:
        _tell_history(whole["history"])
        _tell_events(events)


def _ms(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp() * 1000


def described(run: Run, models: str = "", artifacts: Mapping[str, int] | None = None) -> list[tuple[str, str]]:
    """What there is to say about a run, as names and values."""
    details = run.details
    pairs = [("run", run.id), ("flow", plain(run.flow)), ("goal", plain(run.goal)), ("status", run.status_text)]
    pairs.append(("step", f"{run.state.step}, {'next' if not run.status.ended else 'at'} {run.state.current_node}"))
    if details.get("owner"):
        pairs.append(
            ("in flight", f"played by {details['owner']}, attempt {details['attempt']}, for {duration(since(details['claimed_at']))}")
        )
    if run.phase == "waiting":
        until = f" until {moment(details['waiting_until'])}" if details.get("waiting_until") else ""
        paused = details.get("waiting_for") == "paused"
        words = f"{details.get('waiting_for', '')}{until}".strip()
        if details.get("waiting_for") == "provider":
            began, again = (_ms(details.get(name)) for name in ("waiting_since", "waiting_until"))
            words = waits_for_provider(began, again).removeprefix("waits ")
        pairs.append(("waits", f"holdfast flows unpause {run.flow}" if paused else words))
    told = details.get("progress")
    text = told.get("text") if isinstance(told, dict) else None
    progress = " ".join(plain(str(part)) for part in (progress_of(told), text) if part)
    pairs += [("progress", progress)] if progress else []
    if details.get("last_error") and not run.error:
        pairs.append(("last failure", plain(details["last_error"])))
    waiting = Waiting.of(run)
    if run.status.value == "interrupted" and waiting is not None:
        pairs += asked.pairs(waiting)
    if run.status.value == "stopped":
        who = "".join(
            f", {name} {plain(str(details[key]))}" for name, key in (("by", "stop_by"), ("because", "stop_reason")) if details.get(key)
        )
        pairs.append(("stopped", f"{moment(details['stopped_at']) if 'stopped_at' in details else ''}{who}"))
        if details.get("in_doubt"):
            pairs.append(("in doubt", _in_flight_at_stop(details["in_doubt"])))
        pairs += [("will ask", what(waiting))] if waiting is not None else []
        pairs.append(("go on", f"holdfast resume {run.id}"))
    if details.get("resumed_by"):
        pairs.append(("resumed", f"{moment(details['resumed_at'])} by {plain(details['resumed_by'])}"))
    if details.get("traceback"):
        pairs.append(("traceback", "\n" + lines(details["traceback"])))
    if "unfinished" in details:
        pairs.append(("go on", f"holdfast resume {run.id} --add cycles={details['unfinished']['cycles']}"))
    if run.error:
        pairs += [("error", plain(run.error)), ("try again", f"holdfast retry {run.id}")]
    pairs += [("model", models)] if models else []
    pairs += [("used", used_in_all(details["spent"]))] if used_in_all(details.get("spent", {})) else []
    pairs += [("budget", text) for text in budgets(run)]
    pairs += [("inputs", plain(json.dumps(dict(run.inputs), ensure_ascii=False)))] if run.inputs else []
    pairs += [("labels", ", ".join(f"{plain(key)}={plain(value)}" for key, value in run.labels.items()))] if run.labels else []
    pairs += [("submitted", moment(run.created_at))]
    if details.get("ended_at"):
        pairs.append(("took", duration((run.updated_at - run.created_at).total_seconds())))
    if artifacts:
        pairs.append(("artifacts", ", ".join(f"{plain(name)} ({size:,} bytes)" for name, size in artifacts.items())))
    if run.status.value == "completed":
        pairs.append(("answer", value_text(run.answer)))
    return pairs


def _in_flight_at_stop(doubt: str) -> str:
    """The round that was in flight when the run was stopped, as ``step/node/attempt``."""
    step, _, rest = doubt.partition("/")
    node, _, attempt = rest.rpartition("/")
    return f"{doubt}: step {step} ({plain(node)}, attempt {attempt}) was in flight at the stop; its effects may or may not have happened"


def _models(events: Iterable[Event]) -> str:
    """The models that played the run, in the order of their first rounds."""
    return ", ".join(dict.fromkeys(plain(str(event.data["model"])) for event in events if event.data.get("model")))


def _tell_history(history: list[dict[str, Any]]) -> None:
    click.echo("\nhistory:")
    for number, turn in enumerate(history, 1):
        command = turn["command"]
        said = f"{command['name']} {json.dumps(command['args'], ensure_ascii=False)}" if command else "(no command)"
        click.echo(f"{number}. {plain(said)}")
        click.echo(f"   {plain(value_text(turn['observation']))}")


def _tell_events(events: list[Event]) -> None:
    click.echo("\nevents:")
    for event in events:
        row = row_of(event)
        click.echo(f"{clock(event.at)}  step {event.step}  {event.node}  {row.said}")
        if row.is_round:
            click.echo(f"    {'  '.join(_round(event, row))}")


def _round(event: Event, row: Row) -> list[str]:
    """What is known of a round beside what it came to."""
    data = event.data
    carried_out = [command_text(data)] if "observation" in data and "command" in data else []
    seen = [f"observation {str(data['digest'])[:12]}"] if data.get("digest") else []
    took = [f"took {duration(row.took)}"] if row.took is not None else []
    return [*map(plain, (*carried_out, *seen, *facts(data))), *took, f"attempt {row.attempt}"]
