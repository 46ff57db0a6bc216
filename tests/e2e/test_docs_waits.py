"""docs/guides/waits.md: its flow is played, its test passes, its command can be given."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure import Client, Settings
from perdure.flows.yaml_flows.errors import InvalidFlowFile
from perdure.flows.yaml_flows.load import read_flow
from perdure.worker.cli.main import perdure
from tests.support.flow_registry import own_registry
from tests.support.in_process_runtime import sweeping
from tests.support.plugin_options import PLUGIN
from tests.support.redis_servers import CrashableServer, until
from tests.support.runs import phase
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/waits.md").read_text("utf-8")
FENCED = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)
#: With the test for the crash lab, which stands with the others of its kind.
EXAMPLES = dict(FENCED.findall((ROOT / "docs/guides/testing.md").read_text("utf-8")))
EXAMPLES = {"test_crashes.py": EXAMPLES["test_crashes.py"], **dict(FENCED.findall(TEXT))}

FLOW_MODULES = ("invoices", "payments", "shop_orders")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples as files."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in FLOW_MODULES:  # it registers its flows when it is imported
        monkeypatch.delitem(sys.modules, name, raising=False)
    own_registry(monkeypatch, "order")  # a flow of another test has this name
    return tmp_path


@pytest.fixture
def settings(settings: Settings, project: Path) -> Settings:
    return settings.model_copy(update={"flow_modules": FLOW_MODULES})


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


@pytest.mark.parametrize("name", ["test_invoices.py", "test_crashes.py"])
def test_the_examples_of_tests_pass(project: Path, server: CrashableServer, name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, name],
        cwd=project,
        env={**os.environ, "PERDURE_TEST_URL": server.url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_the_ring_in_yaml_has_one_fault_its_own_node(project: Path) -> None:
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(project / "config/flows/invoice_ring.yaml")
    (fault,) = caught.value.faults
    assert "no node is named 'end'" in str(fault)


def test_a_signal_by_a_business_key_comes_once_before_and_after_the_submission(
    client: Client, settings: Settings, project: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "orders.py"],
        cwd=project,
        env={
            **os.environ,
            "PERDURE_REDIS_URL": str(settings.redis_url),
            "PERDURE_PREFIX": settings.prefix,
            "PERDURE_FLOW_MODULES": "invoices",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = client.runs()
    play(settings, run.id)
    assert client.get(run.id).answer == "paid"


def test_an_order_is_paid_under_the_number_that_it_got_in_its_run(
    client: Client, settings: Settings
) -> None:
    client.signal(topic="order:4711", name="paid", payload=12, key="evt-991")
    run = client.submit("order", "a camel")
    play(settings, run.id)
    assert client.get(run.id).answer == 12
    assert client.get(run.id).details["topic"] == "order:4711"


def test_a_payment_service_without_a_token_calls_the_hook(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit("payment_page", str(tmp_path / "order"))
    (call,) = re.findall(r"```sh\n(curl .*?)```", TEXT, re.DOTALL)
    with serving(settings) as address:
        public = settings.model_copy(update={"public_url": address})
        play(public, run.id)
        hook = (tmp_path / "order").read_text("utf-8")
        subprocess.run(["/bin/sh", "-c", f"ADDRESS={hook}\n{call}"], check=True, timeout=30)
        play(public, run.id)
    assert client.get(run.id).answer == {"amount": 12}


def test_the_command_can_be_given_as_it_stands_there() -> None:
    for line in re.findall(r"^\$ (perdure .*)$", TEXT, re.MULTILINE):
        _, name, *arguments = shlex.split(line)
        command = perdure.get_command(click.Context(perdure), name)
        assert command is not None
        command.make_context(name, arguments)
