"""Words and questions for a run that works, and its values read meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, InvalidTransition, RoundContext, Settings
from perdure.worker.errors import InvalidInput, ValueNotFound
from tests.support.command_line import CommandLine
from tests.support.every_status import play
from tests.support.example_flows.steered import MEANWHILE
from tests.support.runs import hash_of
from tests.support.servers import until
from tests.support.workers import workers

MODULES = ("tests.support.example_flows.steered",)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"flow_modules": MODULES})


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    yield
    MEANWHILE.clear()


def test_a_controller_hears_what_was_said_in_its_next_round(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g", {"rounds": 2})
    play(settings, run.id, rounds=2)
    receipt = client.say(run.id, "also look at the invoices", by="ada")
    assert (receipt.name, receipt.number) == ("say", 1)
    assert client.unread(run.id) == {"say": 1}
    play(settings, run.id, rounds=1)
    assert client.unread(run.id) == {}
    history = client.transcript(run.id)["history"]
    said = {"say": "also look at the invoices", "number": 1, "by": "ada"}
    assert [turn["observation"] for turn in history] == [1, said]
    play(settings, run.id)
    assert client.get(run.id).answer == [3, ["also look at the invoices"]]


def test_a_round_asks_the_server_only_after_something_came(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g", {"rounds": 3})
    play(settings, run.id, rounds=2)
    assert "heard" not in hash_of(client._store, run.id)
    client.signal(run.id, "unrelated")
    play(settings, run.id, rounds=2)
    fields = hash_of(client._store, run.id)
    assert fields["mailbox"] == fields["heard"] == "1"


def test_said_while_the_run_finishes_it_is_heard_before_the_end(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g")
    words = iter(["one", "two"])

    def say(context: RoundContext) -> None:
        for word in words:
            client.say(context.run_id, word)
            break

    MEANWHILE[run.id] = say
    play(settings, run.id)
    assert client.get(run.id).answer == [None, ["one", "two"]]
    assert [event.step for event in client.events(run.id) if event.type == "committed"] == [0, 1, 2]


def test_a_finish_is_put_off_eight_times_and_then_names_what_is_unread(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g")
    MEANWHILE[run.id] = lambda context: client.say(context.run_id, f"at {context.step}") and None
    play(settings, run.id, rounds=20)
    heard = [f"at {step}" for step in range(8)]
    assert client.get(run.id).answer == [None, heard]
    (unread,) = [event for event in client.events(run.id) if event.type == "unread"]
    assert unread.data == {"signals": "say 1"}
    assert client.unread(run.id) == {"say": 1}


def test_nothing_is_said_to_a_run_that_has_completed(client: Client, settings: Settings) -> None:
    run = client.submit("steered", "g")
    play(settings, run.id)
    with pytest.raises(InvalidTransition, match="completed"):
        client.say(run.id, "too late")
    with pytest.raises(InvalidInput, match="empty"):
        client.say(run.id, " ")


def test_more_than_a_round_hears_is_heard_by_the_next_ones_before_the_end(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g")
    for number in range(45):
        client.say(run.id, f"{number} " + "x" * 1_000)
    play(settings, run.id, rounds=20)
    told = client.get(run.id).answer[1]
    assert [(each if isinstance(each, str) else each["beginning"]).split()[0] for each in told] == [
        str(number) for number in range(45)
    ]
    assert client.unread(run.id) == {}


def test_a_question_is_answered_by_the_controllers_command(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g", {"rounds": 1})
    asked = client.signal(run.id, "ask", "status?")
    assert not client.reply(run.id, asked.number).replied
    play(settings, run.id)
    reply = client.reply(run.id, asked.number)
    assert (reply.replied, reply.value) == (True, "at 0")
    assert client.get(run.id).answer[0] is not None
    with pytest.raises(InvalidInput, match="no signal 2"):
        client.reply(run.id, 2)


def test_a_run_that_ends_without_a_reply_says_so(client: Client, settings: Settings) -> None:
    run = client.submit("steered", "g")
    asked = client.signal(run.id, "other", "status?")
    play(settings, run.id)
    with pytest.raises(InvalidTransition, match="without a reply"):
        client.reply(run.id, asked.number, "other")


def test_a_node_replies_once_to_the_signal_that_it_took(client: Client, settings: Settings) -> None:
    run = client.submit("asked_ring", "g")
    play(settings, run.id)
    with pytest.raises(TimeoutError, match="not replied"):
        client.ask(run.id, "camel", name="price", timeout=0, key="k")
    play(settings, run.id)
    assert client.ask(run.id, "camel", name="price", timeout=5, key="k") == {
        "of": "camel",
        "attempt": 2,
    }


def test_values_can_be_read_while_the_run_works(client: Client, settings: Settings) -> None:
    run = client.submit("steered", "g", {"rounds": 2})
    with pytest.raises(ValueNotFound, match="it has none"):
        client.value(run.id, "plan")
    play(settings, run.id, rounds=2)
    assert client.value(run.id, "plan") == 1
    assert client.values(run.id)["plan"] == 1
    assert not any(name.startswith("_") for name in client.values(run.id))
    waited: list[object] = []
    reader = threading.Thread(target=lambda: waited.append(client.value(run.id, "answer", wait=20)))
    reader.start()
    play(settings, run.id)
    reader.join(20)
    assert waited == [[3, []]]


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
    # The turn of round 2k is the k-th of the run's own, beside those that were said before it.
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
    assert call("value", run.id, "plan", "--json").json == 3
    assert "plan  3" in call("value", run.id).out
    assert call("value", run.id, "nothing").code == 3
