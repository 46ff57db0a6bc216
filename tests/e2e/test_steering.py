"""Words for a run while workers are killed, and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.command_line import CommandLine
from tests.support.example_flows import steered_runs  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.runs_in_every_status import play
from tests.support.workers import workers

MODULES = ("tests.support.example_flows.steered_runs",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


def test_each_say_to_a_run_of_many_rounds_reaches_the_next_controller_round(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULES[0]):
        run = client.submit("steered", "g", {"rounds": 30_000})
        until(lambda: client.get(run.id).state.step > 20, "rounds under way", 30)
        before = []
        for number in range(40):
            client.say(run.id, str(number))
            before.append(client.get(run.id).state.step)
            until(lambda: not client.unread(run.id), "it is heard", 10)
        client.request_stop(run.id, mode="now")
    rounds = [
        event.step
        for event in client.events(run.id, follow=False)
        if event.type == "committed" and event.node == "Controller"
    ]
    said = [
        place
        for place, turn in enumerate(client.transcript(run.id)["history"])
        if turn["command"] is None
    ]
    # The turn of round 2k is the k-th of the run's own, beside the earlier messages.
    heard = [2 * (place - number) for number, place in enumerate(said)]
    assert len(heard) == 40
    for step, came in zip(heard, before, strict=True):
        later = [each for each in rounds if came < each < step]
        assert len(later) <= 1, f"said at {came}, heard at {step}"


def test_from_the_command_line(client: Client, settings: Settings, tmp_path: Path) -> None:
    call = CommandLine(tmp_path, settings)
    run = client.submit("steered", "g", {"rounds": 2})
    told = call("say", run.id, "look", "--by", "ada", "--json").json
    assert (told["name"], told["number"]) == ("say", 1)
    late = call("ask", run.id, "status?", "--timeout", "0.1")
    assert late.code == 9 and "has not replied" in late.err
    play(settings, run.id, rounds=4)
    assert "plan  3" in call("value", run.id).out
    client.say(run.id, "one thing more")
    assert "unread" in (shown := call("show", run.id, "--transcript")).out
    assert "ada says:" in shown.out and "say 1" in shown.out
