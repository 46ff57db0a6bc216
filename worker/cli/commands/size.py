"""The command ``size``: the memory, disk and CPU that a number of runs a day needs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.retry import age
from perdure.worker.cli.options import json_option
from perdure.worker.domain.size import FIGURES, SERVER_MS, Load, Size, advice_on, size_of

if TYPE_CHECKING:
    from perdure.worker.domain.size import Fsync, Kind

DAY = 86_400


@click.command("size", epilog="docs/operations/sizing.md describes the figures.")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", required=True, help="Runs a day.")
@click.option(
    "--retention",
    metavar="AGE",
    default="30d",
    show_default=True,
    callback=age,
    help="How long ended runs are kept: 12h, 7d, as the setting retention.",
)
@click.option(
    "--kind",
    type=click.Choice(tuple(FIGURES)),
    default="agent",
    show_default=True,
    help="Kind of run: an agent with observations of 2,000 characters, or a workflow with results "
    "of 200.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rounds of a run. [default: 21 of an agent, 10 of a workflow]",
)
@click.option(
    "--bytes",
    "run_bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Memory of an ended run, if you have measured it. [default: by kind and rounds]",
)
@click.option(
    "--live",
    type=click.IntRange(min=0),
    metavar="N",
    help="Runs that are live at the same time, also those that wait. [default: as many as slots]",
)
@click.option(
    "--round-seconds",
    type=click.FloatRange(min=0),
    metavar="S",
    default=2.0,
    show_default=True,
    help="Seconds of a round, with its wait for a model or a tool.",
)
@click.option(
    "--peak",
    type=click.FloatRange(min=1),
    metavar="X",
    default=5.0,
    show_default=True,
    help="Rate at the peak, as a multiple of the average.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    metavar="N",
    default=16,
    show_default=True,
    help="Slots of a worker process (--concurrency).",
)
@click.option(
    "--fsync",
    type=click.Choice(tuple(SERVER_MS)),
    default="everysec",
    show_default=True,
    help="The server's appendfsync.",
)
@json_option
def size_command(
    runs: int,
    retention: timedelta,
    kind: Kind,
    rounds: int | None,
    run_bytes: int | None,
    live: int | None,
    round_seconds: float,
    peak: float,
    slots: int,
    fsync: Fsync,
    as_json: bool,
) -> None:
    """Compute memory, disk, CPU and workers for a number of runs a day.

    \b
      perdure size --runs 100000 --retention 7d --kind workflow --rounds 4

    It asks no server: the figures are those of docs/operations/sizing.md. Measure your own runs
    before you buy hardware, and pass --bytes.
    """
    days = retention.total_seconds() / DAY
    load = Load(
        runs, days, kind, rounds, run_bytes, live, round_seconds, peak, slots, fsync
    )  # fmt: skip
    size = size_of(load)
    advice = advice_on(load, size)
    if as_json:
        output.document({**size.to_dict(), "advice": advice})
        return
    output.fields(lines_of(load, size))
    for sentence in advice:
        click.echo(sentence, err=True)


def lines_of(load: Load, size: Size) -> list[tuple[str, str]]:
    """Return the computed size as pairs of name and value, for people."""
    memory = (
        f"{bytes_text(size.memory_bytes)}: {load.runs:,} a day, for {load.retention_days:g} days, "
        f"of {size.run_bytes:,} bytes, and {size.live:,} live"
    )
    written = bytes_text(size.written_bytes_a_day)
    average, peak = map(number_text, (size.rounds_a_second, size.peak_rounds_a_second))
    return [
        ("memory of the runs", memory),
        ("maxmemory", bytes_text(size.maxmemory_bytes)),
        ("memory of the machine", bytes_text(size.machine_bytes)),
        ("disk", f"{bytes_text(size.disk_bytes)}; {written} a day are written"),
        ("rounds a second", f"{average} on average, {peak} at the peak"),
        ("CPU of the state server", f"{share_text(size.server_share)} of its one core at the peak"),
        (
            "CPU of the workers",
            f"{number_text(size.worker_cores)} cores at the peak, without your own code",
        ),
        ("slots", f"{size.slots:,} at the peak"),
        ("worker processes", f"{size.workers:,} with {load.slots} slots"),
    ]


def bytes_text(amount: float) -> str:
    """Return bytes as text in GB, MB or kB: ``3.2 GB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if amount >= 0.1 * factor:
            return f"{number_text(amount / factor)} {unit}"
    return f"{amount / 1e3:,.0f} kB"


def number_text(amount: float) -> str:
    """Return a number as text, with one decimal if it is below 10."""
    return f"{amount:.1f}" if amount < 9.95 else f"{amount:,.0f}"


def share_text(share: float) -> str:
    """Return a share as a percentage: 0.5 is ``50 %``."""
    return f"{number_text(100 * share)} %"
