"""The command ``submit``: a new run of a flow. Parsers of ``KEY=VALUE`` options are here too."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import engine_here
from perdure.worker.cli.commands.watch import watch_until_end
from perdure.worker.cli.options import json_option, url_option, when
from perdure.worker.cli.target import client_for
from perdure.worker.tracing.export import exporting

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi
    from perdure.worker.domain.fleet import WorkerStatus
    from perdure.worker.domain.run import Run


@click.command("submit")
@click.argument("flow")
@click.argument("goal", required=False)
@click.option(
    "--input", "texts", metavar="KEY=TEXT", multiple=True, help="Input of the flow, as text."
)
@click.option(
    "--input-json",
    "values",
    metavar="KEY=JSON",
    multiple=True,
    help="Input of the flow, as JSON.",
)
@click.option("--id", "run_id", metavar="ID", help="Id for the run. [default: generated]")
@click.option(
    "--idempotency-key", metavar="K", help="Same key and same content: return the existing run."
)
@click.option("--interrupt-before", metavar="NODE", multiple=True, help="Pause before this node.")
@click.option("--interrupt-after", metavar="NODE", multiple=True, help="Pause after this node.")
@click.option("--max-rounds", metavar="N", type=int, help="End unfinished after N cycles.")
@click.option(
    "--not-before",
    metavar="WHEN",
    callback=when,
    help="Earliest start: 90s, 10m, 7d from now, or a time.",
)
@click.option(
    "--deadline",
    metavar="WHEN",
    callback=when,
    help="Give up at this time: 90s, 10m, 7d from now, or a time.",
)
@click.option(
    "--budget",
    "budgets",
    metavar="NAME=AMOUNT",
    multiple=True,
    help="Limit of tokens, money, seconds, cycles, runs or commands.NAME.",
)
@click.option(
    "--retry", metavar="BOUNDS", help="Limit retries: max_attempts=5,within=10m,not_on=NAME."
)
@click.option(
    "--model", metavar="NAME", help="Model for the run, one of the flow's allowed_models."
)
@click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Picture, document or text that the model sees with the goal.",
)
@click.option(
    "--label",
    "labels",
    metavar="K=V",
    multiple=True,
    help="Label for the run.",
)
@click.option(
    "--topic", metavar="T", help="A name of yours for which the run gets signals: order:4711."
)
@click.option("--by", metavar="NAME", help="Owner of the run. Over HTTP, the token's name is used.")
@click.option("--watch", is_flag=True, help="Watch the run until it ends.")
@json_option
@url_option
@click.pass_context
def submit_command(
    context: click.Context,
    flow: str,
    goal: str | None,
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
    topic: str | None,
    model: str | None,
    files: tuple[str, ...],
    by: str | None,
    watch: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Submit GOAL to FLOW. When this returns, the run is stored.

    A workflow whose function has no parameter `goal` needs no GOAL.

    \b
    perdure submit countdown "try it" --input rounds=5 --watch
    perdure submit order --input item="a book"
    """
    inputs = inputs_of(texts, values)
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
            topic=topic,
            model=model,
            files=files or None,
        )
        if not watch:
            _print_submitted(client, run, as_json, url)
            return
        click.echo(f"run {run.id}", err=True)
        context.exit(watch_until_end(client, run.id, as_json, url))


@contextmanager
def _json_hint(texts: Sequence[str]) -> Iterator[None]:
    """Add a hint to an InvalidInput error of the block: use ``--input-json``.

    The error is raised again. The hint is added only if one of ``texts``, the values of
    ``--input``, looks like a JSON list or object.
    """
    from perdure.flows.core.errors import InvalidInput

    try:
        yield
    except InvalidInput as error:
        json_like = next(
            (text for text in texts if text.partition("=")[2].startswith(("[", "{"))), None
        )
        if json_like is None:
            raise
        raise InvalidInput(
            f"{error}. --input takes text; for JSON use --input-json {shlex.quote(json_like)}"
        ) from error


def inputs_of(texts: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """Return a run's inputs by name, from the values of ``--input`` and ``--input-json``.

    Raises:
        UsageError: A value has no key or is not JSON, or an input is given twice.
    """
    inputs = pairs(texts, "--input") | json_pairs(values, "--input-json")
    if len(inputs) < len(texts) + len(values):
        raise click.UsageError(
            'An input is given twice. To give a list: --input-json \'KEY=["one", "two"]\'.'
        )
    return inputs


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse an option's ``KEY=TEXT`` values into a dict. ``option`` is named in errors.

    Raises:
        UsageError: A value has no key, or a key occurs twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} expects KEY=VALUE, got {text!r}.")
        if key in values:
            raise click.UsageError(f"{option} {key} is given twice.")
        values[key] = value
    return values


def json_pairs(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Parse an option's ``KEY=JSON`` values into a dict. ``option`` is named in errors.

    Raises:
        UsageError: A value has no key, a key occurs twice, or a value is not JSON.
    """
    return {key: _value(key, text, option) for key, text in pairs(texts, option).items()}


def amounts(texts: Sequence[str], option: str) -> dict[str, float]:
    """Parse an option's ``NAME=AMOUNT`` values into numbers by name. ``option`` is named in errors.

    Raises:
        UsageError: A value has no name, a name occurs twice, or an amount is not a number.
    """
    numbers: dict[str, float] = {}
    for name, text in pairs(texts, option).items():
        try:
            numbers[name] = int(text) if text.strip().isdecimal() else float(text)
        except ValueError as error:
            raise click.UsageError(f"{option} {name} expects a number, got {text!r}.") from error
    return numbers


def _value(key: str, text: str, option: str = "--input-json") -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        quoted = shlex.quote(f"{key}={json.dumps(text)}")
        hint = (
            "nested too deep"
            if isinstance(error, RecursionError)
            else f"{error}; for text use --input, or quote it: {quoted}"
            if option == "--input-json"
            else f"{error}; quote a text: {quoted}"
        )
        raise click.UsageError(f"{option} {key} is not JSON: {hint}.") from error


def _bounds(text: str | None) -> dict[str, Any] | None:
    """Parse the value of ``--retry`` into the limits of a run's retries.

    Args:
        text: ``KEY=VALUE`` pairs, separated by commas. None if the option is missing.

    Returns:
        The limits by name, which are not validated here. None if the option is missing.

    Raises:
        UsageError: A pair has no key, or a key occurs twice.
    """
    if text is None:
        return None
    bounds: dict[str, Any] = pairs(tuple(text.split(",")), "--retry")
    if str(bounds.get("max_attempts", "")).isdecimal():
        bounds["max_attempts"] = int(bounds["max_attempts"])
    return bounds | ({"not_on": [bounds["not_on"]]} if "not_on" in bounds else {})


def _print_submitted(client: ClientApi, run: Run, as_json: bool, url: str | None) -> None:
    if as_json:
        output.document(run.to_dict())
    else:
        click.echo(run.id)
        click.echo(f"to follow it: {output.follow_hint(run.id, url)}", err=True)
    if run.status.value not in ("queued", "running"):
        return
    workers = [each for each in client.workers() if each["alive"] and not each.get("draining")]
    if not any(run.flow in worker["flows"] for worker in workers):
        click.echo(_no_worker(client, run.flow, workers), err=True)


def _no_worker(client: ClientApi, name: str, workers: Sequence[WorkerStatus]) -> str:
    """Return the sentence that no worker runs a flow, with advice.

    Args:
        client: The client that reads the flows.
        name: The name of the flow.
        workers: The live workers. If one of them announced why it cannot run the flow, the sentence
            has that reason instead.
    """
    for worker in workers:
        lacking = worker.get("lacking")
        if isinstance(lacking, dict) and name in lacking:
            return f"no worker can run the flow {name} yet; {worker['name']}: {lacking[name]}"
    flow = client.flows().get(name)
    enable = f" --enable {name}" if flow and flow.get("runs_shell") else ""
    start = f"perdure worker{enable}" if engine_here() is None else "celery -A ... worker"
    missing = flow.get("missing") if flow else None
    where = f", but not on this machine: {'; '.join(missing)}" if missing else ""
    return f"no worker runs the flow {name} yet; start one: {start}{where}"
