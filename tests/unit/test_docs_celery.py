"""docs/guides/celery.md, docs/guides/celery-app.md and docs/guides/errors.md: their examples run as
they stand there.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from celery import Celery, chain, shared_task

from perdure import install
from perdure.flows.core.retry import retry_of
from perdure.flows.loading.parse import read_text
from perdure.worker.messaging.callbacks import signature_text

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def test_beat_and_canvas_name_a_task_that_install_registers() -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    install(app)
    [beat] = [code for code in blocks("guides/celery.md", "python") if "beat_schedule" in code]
    exec(beat.replace(".delay()", ""), {"app": app})
    entry = app.conf.beat_schedule["nightly"]
    assert entry["task"] in app.tasks and entry["args"] == ("greeter", "Ada Grace")


def task(run: dict[str, Any]) -> None:
    """Run as a task at a run's end."""


def test_on_end_takes_the_signatures_of_the_page() -> None:
    tasks = ModuleType("tasks")
    for name in ("file_report", "check", "mail"):
        setattr(tasks, name, shared_task(name=f"docs.{name}")(task))
    submitted: list[Any] = []

    class Submits:
        def submit(self, flow: str, goal: str, *, on_end: Any) -> None:
            submitted.append(on_end)

    [code] = [code for code in blocks("guides/celery.md", "python") if "on_end=" in code]
    exec(code, {"client": Submits(), "tasks": tasks, "chain": chain})
    assert len(submitted) == 2 and all(signature_text(on_end) for on_end in submitted)


def test_the_page_of_installing_makes_an_app_with_the_tasks_it_names() -> None:
    [code, *_] = blocks("guides/celery-app.md", "python")
    code = code.replace('app.config_from_object("django.conf:settings", namespace="CELERY")\n', "")
    names: dict[str, Any] = {}
    exec(code, names)
    for task in ("perdure.controller_round", "perdure.executor_round", "perdure.submit"):
        assert task in names["app"].tasks


def test_the_policies_of_the_page_of_errors_are_policies() -> None:
    classes, *_ = blocks("guides/errors.md", "python")
    names: dict[str, Any] = {}
    exec(classes, names)
    assert names["Import"].retry.max_attempts == 5
    [text] = blocks("guides/errors.md", "yaml")
    found = read_text(text.encode(), "errors.yaml").data
    for policy in (
        found["retry"],
        found["subflows_config"]["Controller"]["retry"],
        found["subflows_config"]["Executor"]["subflows_config"]["fetch_url"]["retry"],
    ):
        assert retry_of(policy, "the page") is not None


@pytest.mark.parametrize(
    "name", ["max_attempts", "initial", "maximum", "multiplier", "jitter", "within", "on", "not_on"]
)
def test_the_table_of_errors_names_each_setting_of_a_policy(name: str) -> None:
    rows = re.findall(
        r"^\| (`.*?) \|", (DOCS / "guides/errors.md").read_text("utf-8"), re.MULTILINE
    )
    assert any(f"`{name}`" in row for row in rows)
