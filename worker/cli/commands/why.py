"""The commands ``why`` and ``doctor``: a run's verdict, and the doctor's checks."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import engine_here
from perdure.worker.cli.exit_codes import INTERNAL, Failed
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import client_for, known_id, reader_for
from perdure.worker.presentation.text import count, duration, moment, plain, since


@click.command("doctor")
@json_option
@url_option
def doctor_command(as_json: bool, url: str | None) -> None:
    """Check the server and the settings for anything that breaks or weakens the guarantees.

    refused: workers do not start, or the server refuses writes. warning: runs are at risk.
    unknown: the server hides the setting.
    The exit code is 1 if a check is refused, else 0.
    """
    from perdure.worker.doctor import examine

    engine = engine_here()
    # The client is needed for an app's engine too: it checks the URL and that the server answers.
    with client_for(url) as client:
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
        on_own_app = engine is not None and not engine.owns_app
        effect = "the app's workers play no rounds" if on_own_app else "workers refuse to start"
        then = ". Then restart the workers" if on_own_app else ""
        from perdure.worker.doctor.durability_checks import PASSING

        if set(refused) <= set(PASSING):
            effect, then = "the server takes no work now, and runs wait", ""
        raise Failed(
            f"{effect}; {count(len(refused), 'finding')} to fix: {', '.join(refused)}{then}",
            INTERNAL,
        )


@click.command("why")
@run_argument
@json_option
@url_option
def why_command(run_id: str, as_json: bool, url: str | None) -> None:
    """Explain the state of RUN: a code, what to do, and since when.

    docs/operations/runbook.md describes the codes.
    """
    with reader_for(url) as client:
        run_id = known_id(client, run_id)
        verdict = client.why(run_id)
    if as_json:
        output.document(verdict.to_dict())
        return
    pairs = [("why", verdict.code.value), ("what is", f"{plain(verdict.sentence)}.")]
    if verdict.since is not None:
        pairs.append(("since", f"{moment(verdict.since)} ({duration(since(verdict.since))})"))
    output.fields(pairs)
