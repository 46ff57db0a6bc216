"""submit: hand over a goal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.on_app import engine_here, program
from worker.cli.options import json_option, url_option, when
from worker.cli.server import client_for
from worker.places import place_of
from worker.telemetry.exporting import exporting

if TYPE_CHECKING:
    from worker.client import Client
    from worker.run import Run


@click.command("submit")
@click.argument("flow")
@click.argument("goal")
@click.option("--input", "texts", metavar="KEY=TEXT", multiple=True, help="An input of the flow, as text.")
@click.option("--input-json", "values", metavar="KEY=JSON", multiple=True, help="An input of the flow, as JSON.")
@click.option("--id", "run_id", metavar="ID", help="An id of your own for the run.")
@click.option("--idempotency-key", metavar="K", help="The same key with the same content gets the same run.")
@click.option("--interrupt-before", metavar="NODE", multiple=True, help="Pause before this node.")
@click.option("--interrupt-after", metavar="NODE", multiple=True, help="Pause after this node.")
@click.option("--max-rounds", metavar="N", type=int, help="End unfinished after so many cycles.")
@click.option("--not-before", metavar="WHEN", callback=when, help="Start no sooner: 90s, 10m, 7d from now, or a time.")
@click.option("--deadline", metavar="WHEN", callback=when, help="Give up then: 90s, 10m, 7d from now, or a time.")
@click.option("--budget", "budgets", metavar="NAME=AMOUNT", multiple=True, help="Spend no more: tokens, money, seconds, commands.NAME.")
@click.option("--retry", metavar="BOUNDS", help="Give up sooner: max_attempts=5,within=10m,not_on=NAME.")
@click.option("--label", "labels", metavar="K=V", multiple=True, help="A text of your own by which to know the run.")
@click.option("--by", metavar="NAME", help="Whose run it is; a control room knows it by the token.")
@click.option("--watch", is_flag=True, help="Watch it until it ends.")
@json_option
@url_option
@click.pass_context
def submit_command(
    context: click.Context,
    flow: str,
    goal: str,
    texts: tuple[str, ...],
    values: tuple[str, ...],
    run_id: str | None,
    idempotency_key: str | None,
    interrupt_before: tuple[str, ...],
    interrupt_after: tuple[str, ...],
    max_rounds: int | None,
    not_before: datetime | timedelta | None,
    deadline: datetime | timedelta | None,
    budgets: tuple[str, ...],
    retry: str | None,
    labels: tuple[str, ...],
    by: str | None,
    watch: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Hand over GOAL to FLOW. Once this returns, the run is not lost.

    \b
    holdfast submit countdown "try it" --input rounds=5 --watch
    """
    inputs = pairs(texts, "--input") | {key: _value(key, text) for key, text in pairs(values, "--input-json").items()}
    if len(inputs) < len(texts) + len(values):
        raise click.UsageError('An input is given twice; a list is given as --input-json \'KEY=["one", "two"]\'.')
    with client_for(url) as client, exporting(), _json_hint(texts):
        run = client.submit(
            flow,
            goal,
            inputs,
            run_id=run_id,
            idempotency_key=idempotency_key,
            interrupt_before=interrupt_before or None,
            interrupt_after=interrupt_after or None,
            max_rounds=max_rounds,
            not_before=not_before,
            deadline=deadline,
            labels=pairs(labels, "--label"),
            budgets=amounts(budgets, "--budget"),
            retry=_bounds(retry),
            submitted_by=by,
        )
        if not watch:
            _tell(client, run, as_json, url)
            return
        click.echo(f"run {run.id}", err=True)
        from worker.cli.watch import watch_until_end

        context.exit(watch_until_end(client, run.id, as_json, url))


@contextmanager
def _json_hint(texts: Sequence[str]) -> Iterator[None]:
    """Add how to give a list or an object as an input, where the flow refuses the text of one; raises InvalidInput."""
    from flows import InvalidInput

    try:
        yield
    except InvalidInput as error:
        json_like = next((text for text in texts if text.partition("=")[2].startswith(("[", "{"))), None)
        if json_like is None:
            raise
        raise InvalidInput(f"{error}. --input gives a text; JSON goes into --input-json {shlex.quote(json_like)}") from error


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """``KEY=TEXT`` options as a dict; raises UsageError."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} expects KEY=VALUE, it got {text!r}.")
        if key in found:
            raise click.UsageError(f"{option} {key} is given twice.")
        found[key] = value
    return found


def amounts(given: Sequence[str], option: str) -> dict[str, float]:
    """``NAME=AMOUNT`` options as numbers; raises UsageError."""
    found: dict[str, float] = {}
    for name, text in pairs(given, option).items():
        try:
            found[name] = int(text) if text.strip().isdecimal() else float(text)
        except ValueError as error:
            raise click.UsageError(f"{option} {name} expects a number, it got {text!r}.") from error
    return found


def _value(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        quoted = shlex.quote(f"{key}={json.dumps(text)}")
        hint = "nested too deep" if isinstance(error, RecursionError) else f"{error}; a text goes into --input, or into quotes: {quoted}"
        raise click.UsageError(f"--input-json {key} is not JSON: {hint}.") from error


def follow_hint(run_id: str, url: str | None) -> str:
    """The command that shows this run live; a password in the URL is left for the reader to add."""
    return f"{program()} watch {run_id}" + (f" --url {shlex.quote(place_of(url))}" if url else "")


def _bounds(text: str | None) -> dict[str, Any] | None:
    """What ``--retry`` says: settings and values with commas between them."""
    if text is None:
        return None
    given: dict[str, Any] = pairs(tuple(text.split(",")), "--retry")
    if str(given.get("max_attempts", "")).isdecimal():
        given["max_attempts"] = int(given["max_attempts"])
    return given | ({"not_on": [given["not_on"]]} if "not_on" in given else {})


def _tell(client: Client, run: Run, as_json: bool, url: str | None) -> None:
    if as_json:
        output.document(run.to_dict())
    else:
        click.echo(run.id)
        click.echo(f"follow it: {follow_hint(run.id, url)}", err=True)
    if run.status.value in ("queued", "running") and not any(
        worker["alive"] and not worker.get("draining") and run.flow in worker["flows"] for worker in client.workers()
    ):
        enable = f" --enable {run.flow}" if client.flows().get(run.flow, {}).get("runs_shell") else ""
        start = f"holdfast worker{enable}" if engine_here() is None else "celery -A ... worker"
        click.echo(f"no worker that plays {run.flow} is there yet; start one: {start}", err=True)
