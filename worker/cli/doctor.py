"""doctor: what is wrong with the server or the settings."""

from __future__ import annotations

import click

from worker.cli import output
from worker.cli.exits import INTERNAL, Failed
from worker.cli.on_app import engine_here
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.words.texts import count, plain


@click.command("doctor")
@json_option
@url_option
def doctor_command(as_json: bool, url: str | None) -> None:
    """What voids the promises (refused: workers do not start), what endangers them (warning), what the server hides (unknown).

    Exit code 1 when something is refused, else 0.
    """
    from worker.doctor import examine

    engine = engine_here()
    with client_for(url) as client:  # it says what is wrong with the URL, and whether the server answers
        findings = client.doctor() if engine is None or url is not None else examine(engine)
    if as_json:
        output.document([finding.to_dict() for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{finding.level.value:<8} {finding.check}: {plain(finding.sentence)}")
            if finding.remedy:
                click.echo(f"{'':<8} → {plain(finding.remedy)}")
    refused = [finding.check for finding in findings if finding.level.value == "refused"]
    if refused:
        raise Failed(f"{count(len(refused), 'finding')} that workers refuse: {', '.join(refused)}", INTERNAL)
