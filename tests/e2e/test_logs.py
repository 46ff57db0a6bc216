"""The log lines of a fresh process for Celery and for the pool."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_what_the_pool_of_processes_says_is_one_json_line_too() -> None:
    script = "from perdure.worker.logs import set_up_logging as up; up('json'); from billiard.util import get_logger; get_logger().error('gone')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stderr)["message"] == "gone"


@pytest.mark.parametrize(("level", "celery"), [("", False), (", logging.INFO", True)])
def test_celery_tells_nothing_of_each_round_unless_it_is_asked_to(level: str, celery: bool) -> None:
    """Two lines a round cost more than its message; Perdure's own lines at INFO stay."""
    script = (
        f"import logging; from perdure.worker.logs import set_up_logging as up; up('text'{level}); "
        "from celery.worker.strategy import logger as received; from celery.app.trace import logger as succeeded; "
        "print([each.isEnabledFor(logging.INFO) for each in (received, succeeded, logging.getLogger('perdure.rounds'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([celery, celery, True])
