"""why: why a run is where it is."""

from __future__ import annotations

import click

from worker.cli import output
from worker.cli.options import json_option, run_argument, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id
from worker.words.texts import duration, moment, plain, since


@click.command("why")
@run_argument
@json_option
@url_option
def why_command(run_id: str, as_json: bool, url: str | None) -> None:
    """Why RUN is where it is: one code, one sentence that says what to do, since when. docs/runbook.md has more on each code."""
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        verdict = client.why(run_id)
    if as_json:
        output.document(verdict.to_dict())
        return
    pairs = [("why", verdict.code.value), ("what is", f"{plain(verdict.sentence)}.")]
    if verdict.since is not None:
        pairs.append(("since", f"{moment(verdict.since)} ({duration(since(verdict.since))})"))
    output.fields(pairs)
