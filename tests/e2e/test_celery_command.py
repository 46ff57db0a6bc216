"""``celery`` as a process: it finds Perdure's commands by their entry point, and stays quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure import Client, Settings
from perdure.worker.features import NAMES
from tests.support.celery_command import APP, CeleryCommand
from tests.support.command_line import ROOT

pytestmark = pytest.mark.slow


def celery(settings: Settings, *arguments: str) -> str:
    """Return the output of ``celery``."""
    return subprocess.check_output(
        [sys.executable, *arguments], cwd=ROOT, env=CeleryCommand(settings).environment, text=True
    )


def test_celery_finds_the_commands_by_their_entry_point(client: Client, settings: Settings) -> None:
    client.submit("countdown", "g", run_id="one")
    assert celery(settings, "-m", "celery", *APP, "perdure", "list").startswith("one\t")


def test_celery_alone_loads_nothing_of_ours_that_takes_time(settings: Settings) -> None:
    assert "Durable runs" in celery(settings, "-m", "celery", "--help")
    # Not redis: other packages bring commands as well, and Flower's load it.
    script = (
        "import sys, celery.bin.celery; "
        "print(*(name for name in sys.modules if name.startswith(('perdure', 'pydantic'))))"
    )
    loaded = celery(settings, "-c", script).split()
    assert "perdure.worker.cli.celery_command" in loaded
    assert set(loaded) <= {
        "perdure",
        "perdure.worker",
        "perdure.worker.cli",
        "perdure.worker.cli.celery_command",
        "perdure.worker.cli.exit_codes",
        "perdure.worker.cli.interrupts",
        "perdure.worker.cli.main",
        # Features name their commands. They load the rest of themselves when it is used.
        "perdure.worker.features",
        "perdure.worker.features.feature",
        *(f"perdure.worker.features.{name}" for name in NAMES),
    }
