"""The calls of docs/guides/http.md work in their order."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.worker.settings import Settings
from tests.support.threaded_server import serving

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "http.md").read_text("utf-8")
CALLS = [
    call.replace("\\\n", "")
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for call in re.split(r"\n(?=curl)", block.strip())
]


def test_every_call_can_be_made_and_does_what_is_said(settings: Settings, prefix: str) -> None:
    if shutil.which("curl") is None and "CI" not in os.environ:
        pytest.skip("this machine has no curl")
    base, *calls = CALLS
    assert base == "API=http://127.0.0.1:8787/api/v1" and len(calls) >= 17
    answers = {}
    with serving(settings) as address:
        for call in calls:
            script = f"API={address}/api/v1\n{call}"
            done = subprocess.run(
                ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=30, check=True
            )
            answers[call] = json.loads(done.stdout)
    problems = {
        call: answer
        for call, answer in answers.items()
        if isinstance(answer, dict) and "urn:perdure" in answer.get("type", "")
    }
    assert list(problems) == ["curl -s $API/runs/nothing"]
    assert [problems["curl -s $API/runs/nothing"]] == [
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    ]
    assert [
        run["id"]
        for run in next(answer for call, answer in answers.items() if "status=queued" in call)[
            "runs"
        ]
    ] == ["nightly"]
