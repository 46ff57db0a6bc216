"""Celery's own view of the round tasks, and flows that an app names wrongly."""

from __future__ import annotations

import json as module_given_by_mistake

import pytest
from celery import Celery

from perdure.flows.core.errors import InvalidFlow
from perdure.worker.messaging.app_flows import find_flows_of_app
from perdure.worker.messaging.message_builder import RoundTask


def print_nothing() -> None:
    """Run as a task."""


def test_the_remote_command_rate_limit_leaves_rounds_alone() -> None:
    with Celery("theirs", set_as_current=False) as app:
        app.conf.task_default_rate_limit = "1/m"
        task = app.task(print_nothing, name="rounds", base=RoundTask, shared=False)
        task.rate_limit = "2/m"  # as celery/worker/control.py does
        assert task.rate_limit is None


def test_a_module_in_place_of_its_name_is_refused_with_its_name() -> None:
    with (
        Celery("theirs", set_as_current=False) as app,
        pytest.raises(InvalidFlow, match="Pass its name: 'json'"),
    ):
        find_flows_of_app(app, [module_given_by_mistake])  # type: ignore[list-item]
