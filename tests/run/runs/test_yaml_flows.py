"""Flows written in YAML: the file's text is the flow that runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, Run, RunStatus
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.rings.human import EXIT_ANSWER
from perdure.worker.settings import Settings
from tests.support.example_flows import yaml_flow_parts as written
from tests.support.round_driver import Driver, driving

pytestmark = pytest.mark.usefixtures("_own_directory")


@pytest.fixture
def _own_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flows of the test are there, also where another test has set the registry back."""
    monkeypatch.setattr(sources, "_directories", Directories())
    sources.add_directory(written.DIRECTORY)


@pytest.fixture
def driver(settings: Settings, _own_directory: None) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


def answered(client: Client, driver: Driver, run: Run, *answers: object) -> Run:
    """Return the run after it has stopped for each answer in turn, and then for something else."""
    for answer in answers:
        waiting = driver.play_to_rest(run.id)
        assert waiting.status is RunStatus.INTERRUPTED, waiting.error
        client.resume(run.id, answer=answer)
    return driver.play_to_rest(run.id)


def test_the_configuration_of_the_seed_runs_as_written(client: Client, driver: Driver) -> None:
    run = driver.play_to_rest(client.submit("doubler", "twenty at least").id)
    assert (run.status, run.output) == (RunStatus.COMPLETED, {"answer": 32, "status": "finished"})
    history = client.transcript(run.id)["history"]
    assert [turn["observation"] for turn in history] == [2, 4, 8, 16, 32]
    assert history[0]["command"]["thought"] == "not yet"


def test_max_rounds_of_the_file_end_the_run_unfinished(client: Client, driver: Driver) -> None:
    run = driver.play_to_rest(client.submit("doubler", "twenty at least", max_rounds=3).id)
    assert run.output["status"] == "unfinished"
    assert (
        run.answer == "The maximum amount of rounds was reached before the model found an answer."
    )


def test_a_ring_with_a_third_node_asks_a_person_after_each_command(
    client: Client, driver: Driver
) -> None:
    run = client.submit("watched", "four")
    waiting = driver.play_to_rest(run.id)
    assert (waiting.state.current_node, waiting.state.interrupt_data) == (
        "HumanFeedback",
        {"observation": 2},
    )
    done = answered(client, driver, run, "go on", "very good")
    assert done.output == {"answer": 4, "status": "finished"}


def test_q_leaves_the_run_unfinished_with_the_words_of_the_seed(
    client: Client, driver: Driver
) -> None:
    done = answered(client, driver, client.submit("watched", "four"), "q")
    assert EXIT_ANSWER == "The user has chosen to exit before a final answer was generated."
    assert done.status is RunStatus.COMPLETED
    assert done.output == {"answer": EXIT_ANSWER, "status": "unfinished"}


def test_a_ring_of_five_remembers_what_came_of_each_turn(client: Client, driver: Driver) -> None:
    """Memory read, controller, executor, human feedback, memory write; the controller goes by
    nothing but the memory.
    """
    done = answered(client, driver, client.submit("remembering", "two turns"), "good", "better")
    assert done.answer == [[1, 2, "good"], [2, 4, "better"]]
    nodes = [
        event.node for event in client.events(done.id, follow=False) if event.type == "committed"
    ]
    ring = ["MemoryRead", "Controller", "Executor", "HumanFeedback", "MemoryWrite"]
    assert nodes == [*ring, *ring, "MemoryRead", "Controller"]


def test_a_ring_without_a_controller_and_its_inputs(client: Client, driver: Driver) -> None:
    assert driver.play_to_rest(client.submit("counting", "two").id).output == {
        "answer": 2,
        "doubled": 2,
    }
    assert driver.play_to_rest(client.submit("counting", "five", {"times": 5}).id).output == {
        "answer": 5,
        "doubled": 8,
    }


def test_a_flow_that_ships_is_decided_by_a_person(client: Client, driver: Driver) -> None:
    """``CtrlEx`` needs no flow module and no model."""
    ask = {"command": "ask", "command_args": {"question": "Is it raining?"}}
    done = answered(
        client,
        driver,
        client.submit("CtrlEx", "the weather"),
        ask,
        "yes",
        {"command": "finish", "command_args": {"answer": "rain"}},
    )
    assert done.output == {"answer": "rain", "status": "finished"}


def test_the_ring_of_five_that_ships(client: Client, driver: Driver) -> None:
    ask = {"command": "ask", "command_args": {"question": "Is it raining?"}}
    done = answered(
        client,
        driver,
        client.submit("memory", "the weather"),
        ask,
        "yes",
        "good",
        {"command": "ask", "command_args": {"question": "?"}},
        1,
        "q",
    )
    assert done.output["answer"] == EXIT_ANSWER
