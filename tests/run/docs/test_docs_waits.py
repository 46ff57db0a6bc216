"""docs/guides/waits.md: its flow is played, its command can be given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from perdure import Client, Settings
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from perdure.worker.cli.main import perdure
from tests.support.in_process_runtime import sweeping
from tests.support.redis_servers import until
from tests.support.runs import phase
from tests.support.runs_in_every_status import play
from tests.support.waits_guide import TEXT, project, settings

__all__ = ["project", "settings"]


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


def test_the_ring_in_yaml_has_one_fault_its_own_node(project: Path) -> None:
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(project / "config/flows/invoice_ring.yaml")
    (fault,) = caught.value.faults
    assert "no node is named 'end'" in str(fault)


def test_an_order_is_paid_under_the_number_that_it_got_in_its_run(
    client: Client, settings: Settings
) -> None:
    client.signal(topic="order:4711", name="paid", payload=12, key="evt-991")
    run = client.submit("order", "a camel")
    play(settings, run.id)
    assert client.get(run.id).answer == 12
    assert client.get(run.id).details["topic"] == "order:4711"


def test_the_command_can_be_given_as_it_stands_there() -> None:
    for line in re.findall(r"^\$ (perdure .*)$", TEXT, re.MULTILINE):
        _, name, *arguments = shlex.split(line)
        command = perdure.get_command(click.Context(perdure), name)
        assert command is not None
        command.make_context(name, arguments)
