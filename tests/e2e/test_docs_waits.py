"""docs/guides/waits.md: its flow is played, its test passes, its command can be given."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure import Client, Settings
from perdure.flows import registry
from perdure.worker.cli.main import perdure
from tests.support.every_status import play
from tests.support.runs import phase
from tests.support.servers import until
from tests.support.sweeps import sweeping

TEXT = (Path(__file__).parents[2] / "docs/guides/waits.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples as files."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    return tmp_path


@pytest.fixture
def settings(settings: Settings, project: Path) -> Settings:
    return settings.model_copy(update={"flow_modules": ("invoices",)})


def test_the_invoice_is_reminded_after_a_day_and_paid_after_two(
    client: Client, settings: Settings
) -> None:
    run = client.submit("invoice", "a camel")
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    assert "wait_until" in client.get(run.id).details
    client._store.redis.hset(client._store.keys.run(run.id), "wait_until", "1")
    client._store.redis.zadd(client._store.keys.due, {run.id: 1})
    with sweeping(client, settings):
        until(lambda: phase(client._store, run.id) == "queued", "the time's being over")
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    client.signal(run.id, "paid", {"amount": 12})
    play(settings, run.id)
    assert client.get(run.id).answer == "paid"
    recorded = [event.type for event in client.events(run.id)]
    assert recorded.count("parked") == 2


def test_the_example_of_a_test_passes(project: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_invoices.py"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_the_command_can_be_given_as_it_stands_there() -> None:
    for line in re.findall(r"^\$ (perdure .*)$", TEXT, re.MULTILINE):
        _, name, *arguments = shlex.split(line)
        command = perdure.get_command(click.Context(perdure), name)
        assert command is not None
        command.make_context(name, arguments)
