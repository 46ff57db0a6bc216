"""The possible calls at the end of a run, and their stored form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature

from perdure import InvalidInput
from perdure.worker.messaging.callbacks import signature_text

TASK = {"task": "mail.report"}
MADE = signature("mail.report", args=("weekly",), options={"queue": "mail"})


@pytest.mark.parametrize(
    "on_end",
    [
        TASK,
        {**TASK, "options": {"queue": "mail"}},
        {**TASK, "args": None, "kwargs": None, "options": None},
        {**TASK, "args": ["weekly"]},
        {"task": "celery.chain", "subtask_type": "chain", "kwargs": {"tasks": [TASK, TASK]}},
        {"task": "celery.group", "subtask_type": "group", "kwargs": {"tasks": [TASK]}},
    ],
)
def test_what_a_signature_leaves_out_is_empty(on_end: dict[str, Any]) -> None:
    app = Celery("theirs", broker="memory://", set_as_current=False)
    stored = json.loads(signature_text(on_end))
    assert {"args", "kwargs", "options", "immutable", "subtask_type"} < stored.keys()
    signature(stored, app=app).apply_async(({"run_id": "r"},), retry=False)


@pytest.mark.parametrize(
    "on_end", [MADE, chain(MADE, MADE), group(MADE, MADE), chord([MADE, MADE], MADE)]
)
def test_a_signature_of_celery_is_stored_as_it_is(on_end: Any) -> None:
    assert json.loads(signature_text(on_end)) == json.loads(json.dumps(dict(on_end)))


@pytest.mark.parametrize(
    ("on_end", "fault"),
    [
        ({**TASK, "args": "weekly"}, "args of mail.report should be a list"),
        ({**TASK, "args": {"period": "weekly"}}, "args of mail.report should be a list"),
        ({**TASK, "kwargs": ["weekly"]}, "kwargs of mail.report should be a dict"),
        ({**TASK, "options": "mail"}, "options of mail.report should be a dict"),
        ({"task": "celery.chain", "subtask_type": "chain"}, "tasks of celery.chain"),
        (
            {"task": "celery.chain", "subtask_type": "chain", "kwargs": {"tasks": ["mail.report"]}},
            "should be a Celery signature",
        ),
        (
            {"task": "celery.chord", "subtask_type": "chord", "kwargs": {"header": [TASK]}},
            "body of celery.chord",
        ),
    ],
)
def test_what_would_fail_at_each_call_is_refused(on_end: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        signature_text(on_end)
