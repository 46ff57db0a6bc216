"""Child runs: started once, heard once, stopped and continued with their parent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, RunStatus, Settings
from tests.support.driving import Driver, driving
from tests.support.example_flows import families  # noqa: F401 -- registers flows

MODULES = ("tests.support.example_flows.families",)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"flow_modules": MODULES})


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


def test_a_child_s_answer_is_its_parent_s(client: Client, driver: Driver) -> None:
    run = client.submit("errand", "milk", {"child": {"rounds": 2}})
    played = driver.play()
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, [1, "milk"])
    assert [each == run.id for each in played] == [True, False, False, True]


def test_a_tree(client: Client, driver: Driver) -> None:
    run = client.submit("nest", "g", {"depth": 3})
    driver.play()
    assert client.get(run.id).answer == 15
