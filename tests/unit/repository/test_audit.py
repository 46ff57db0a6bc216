"""The dependency audit never passes as done if no service answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.audit import verdict


def answer(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


CLEAN = {"name": "kombu", "version": "5.7.0", "vulns": []}
WEAK = {
    "name": "redis",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}],
}
UNKNOWN = {
    "name": "celery",
    "skip_reason": "Dependency not found on PyPI and could not be audited: celery (5.7.0)",
}
OWN = {"name": "perdure", "skip_reason": "distribution marked as editable"}


@pytest.mark.parametrize(
    ("code", "out", "err", "expected", "words"),
    [
        (0, answer(CLEAN, OWN), "No known vulnerabilities found", (0, 0), "1 packages audited"),
        (
            1,
            answer(CLEAN, WEAK),
            "Found 1 known vulnerability",
            (1, 1),
            "redis 1.0: PYSEC-1 (mended in 1.1)",
        ),
        (1, answer(UNKNOWN, WEAK), "", (1, 1), "known vulnerabilities: redis"),
        (
            0,
            answer(UNKNOWN, CLEAN),
            "No known vulnerabilities found",
            (0, 1),
            "NOT AUDITED: 1 of 2",
        ),
        (0, answer(UNKNOWN), "No known vulnerabilities found", (0, 1), "NOT AUDITED: 1 of 1"),
        (0, answer(), "", (0, 1), "NOT AUDITED: 0 of 0"),
        (
            1,
            "",
            "requests.exceptions.ConnectionError: Max retries exceeded",
            (0, 1),
            "NOT AUDITED: the service",
        ),
        (1, "", "/usr/bin/python: No module named pip_audit", (1, 1), "the audit failed"),
        (1, "", "", (1, 1), "it said nothing"),
        (2, answer(CLEAN), "an internal error", (1, 1), "the audit failed: an internal error"),
    ],
)
def test_what_pip_audit_says_is_taken_for_what_it_is(
    code: int, out: str, err: str, expected: tuple[int, int], words: str
) -> None:
    for strict in (False, True):
        found, told = verdict(code, out, err, strict)
        assert found == expected[strict] and words in told
