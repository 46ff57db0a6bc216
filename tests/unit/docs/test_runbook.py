"""docs/operations/runbook.md is complete: an operator finds each code and each row there."""

from __future__ import annotations

import re
from pathlib import Path

from perdure import Client, VerdictCode
from perdure.worker.doctor import server_findings
from perdure.worker.doctor.app_checks import (
    app_findings,
    dead_letters,
    flows_loaded,
    handover,
    quarantined_runs,
    sandbox,
)
from perdure.worker.doctor.durability_checks import sentinels, writes
from perdure.worker.doctor.server_checks import connection, limit
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection

TEXT = (Path(__file__).parents[3] / "docs" / "operations" / "runbook.md").read_text("utf-8")


def test_every_code_has_a_section_that_says_what_it_means_what_to_check_and_what_to_do() -> None:
    sections = dict(re.findall(r"^## `([a-z-]+)`\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(code.value for code in VerdictCode)
    incomplete = [
        code
        for code, text in sections.items()
        if not all(f"**{part}.**" in text for part in ("Means", "Check", "Do"))
    ]
    assert incomplete == []


def test_every_row_of_the_doctor_is_in_its_table() -> None:
    settings = Settings(redis_url="unix:///nowhere")
    told = Inspection()
    client = Client(settings=settings)
    checks = [finding.check for finding in server_findings(told, settings)]
    checks += [
        writes(told).check,
        limit(told).check,
        connection(settings, "").check,
        dead_letters(told, "").check,
        quarantined_runs(told).check,
        "notifications",
        flows_loaded({}, {}).check,
        sandbox(settings).check,
    ]
    checks += [finding.check for finding in sentinels("redis+sentinel://127.0.0.1:1/nobody")]
    checks += [handover(client._connection.publisher, {}).check]
    checks += [finding.check for finding in app_findings(client._connection.app, own=True)]
    client.close()
    assert re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE) != []
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE)) == sorted(checks)
