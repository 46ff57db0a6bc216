"""Conversations: one run reads each message to a thread, and the next run knows the messages
before.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perdure import AsyncClient, Client, Conflict, RemoteClient, RoundContext, RunStatus, Settings
from perdure.flows.core.thread_messages import MOST_CHARACTERS, ThreadMessage, newest_of
from perdure.worker.app import engine_of, make_app
from perdure.worker.errors import Forbidden, InvalidInput, UnknownFlow
from tests.support.authenticator import by_name
from tests.support.command_line import CommandLine
from tests.support.example_flows.conversation import MEANWHILE
from tests.support.redis_servers import until
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

MODULES = ("tests.support.example_flows.conversation",)


pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    yield
    MEANWHILE.clear()


def texts(client: Client, thread: str = "ada") -> list[tuple[str, str]]:
    return [(each.role[0], each.text) for each in client.conversation(thread)]


def test_a_message_starts_a_run_the_next_is_heard_and_one_after_the_end_starts_another(
    client: Client, settings: Settings
) -> None:
    assert client.conversation("ada") == []
    first = client.send("ada", "hello", flow="talking", inputs={"rounds": 1})
    assert first.started
    play(settings, first.run_id, rounds=1)
    second = client.send("ada", "and the invoices", flow="talking")
    assert (second.run_id, second.started) == (first.run_id, False)
    assert texts(client) == [("u", "hello"), ("u", "and the invoices")]
    play(settings, first.run_id)
    third = client.send("ada", "thanks", flow="talking")
    assert third.started and third.run_id != first.run_id
    play(settings, third.run_id)
    assert texts(client) == [
        ("u", "hello"),
        ("u", "and the invoices"),
        ("a", "0 before; hello + and the invoices"),
        ("u", "thanks"),
        ("a", "3 before; thanks"),
    ]
    assert [run.id for run in client.runs(thread_id="ada")] == [third.run_id, first.run_id]
    assert client.runs(thread_id="bob").runs == []


@pytest.mark.parametrize("when", ["queued", "live", "completed"])
def test_the_same_message_again_under_its_key_is_stored_once(
    client: Client, settings: Settings, when: str
) -> None:
    sent = client.send("ada", "hello", flow="talking", key="1", inputs={"rounds": 3})
    if when != "queued":
        play(settings, sent.run_id, rounds=1)
    said = client.send("ada", "more", flow="talking", key="2")
    if when == "completed":
        play(settings, sent.run_id)
    for _ in range(2):
        again = client.send("ada", "hello", flow="talking", key="1", inputs={"rounds": 3})
        assert again == sent
        assert client.send("ada", "more", flow="talking", key="2").run_id == said.run_id
    assert len(client.runs(thread_id="ada").runs) == 1
    play(settings, sent.run_id)
    assert texts(client) == [("u", "hello"), ("u", "more"), ("a", "0 before; hello + more")]


def test_a_repetition_after_the_next_run_began_is_known_too(
    client: Client, settings: Settings
) -> None:
    first = client.send("ada", "one", flow="talking", key="1")
    client.send("ada", "two", flow="talking", key="2")
    play(settings, first.run_id)
    third = client.send("ada", "three", flow="talking", key="3")
    assert client.send("ada", "two", flow="talking", key="2").run_id == first.run_id
    play(settings, third.run_id)
    assert client.send("ada", "two", flow="talking", key="2").run_id == first.run_id
    assert [text for role, text in texts(client) if role == "u"] == ["one", "two", "three"]


def test_a_message_sent_while_the_run_finishes_is_heard(client: Client, settings: Settings) -> None:
    words = iter(["one more"])

    def send(context: RoundContext) -> None:
        for word in words:
            client.send("ada", word, flow="talking")
            break

    MEANWHILE.append(send)
    run_id = client.send("ada", "hello", flow="talking").run_id
    play(settings, run_id)
    assert client.get(run_id).answer == "0 before; hello + one more"


def test_after_an_error_or_a_stop_the_next_message_starts_a_run_that_knows_of_it(
    client: Client, settings: Settings
) -> None:
    failed = client.send("ada", "fail now", flow="talking").run_id
    play(settings, failed)
    assert client.get(failed).status is RunStatus.ERRORED
    stopped = client.send("ada", "hello", flow="talking").run_id
    client.request_stop(stopped, mode="now")
    last = client.send("ada", "again", flow="talking").run_id
    play(settings, last)
    role, text = texts(client)[1]
    assert role == "a" and "no words" in text
    assert texts(client)[2:] == [
        ("u", "hello"),
        ("a", "(stopped)"),
        ("u", "again"),
        ("a", "4 before; again"),
    ]


def test_a_message_to_a_run_that_fails_meanwhile_goes_to_the_next_run(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = client.send("ada", "hello", flow="talking").run_id
    say, times = client.say, [0]

    def late(*args: object, **kwargs: object) -> object:
        if not times[0]:
            client.request_stop(run_id, mode="now")
        times[0] += 1
        return say(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "say", late)
    sent = client.send("ada", "more", flow="talking", key="m")
    assert (sent.started, times[0]) == (True, 1)
    assert client.send("ada", "more", flow="talking", key="m") == sent
    play(settings, sent.run_id)
    assert client.get(sent.run_id).answer == "2 before; more"


def test_one_run_gets_a_message_that_is_sent_again_after_its_run_was_stopped(
    client: Client, settings: Settings
) -> None:
    first = client.send("ada", "hello", flow="talking", inputs={"rounds": 3}).run_id
    play(settings, first, rounds=1)
    for key, text in (("2", "two"), ("3", "three"), ("4", "four")):
        client.send("ada", text, key=key)
    client.request_stop(first, mode="now")
    second = client.send("ada", "three", flow="talking", key="3")
    assert second.started and client.send("ada", "three", flow="talking", key="3") == second
    play(settings, second.run_id)
    client.resume(first)
    play(settings, first)
    assert client.get(first).answer == "0 before; hello + two + four"
    assert client.get(second.run_id).answer is not None
    said = [text for role, text in texts(client) if role == "u"]
    assert sorted(said) == ["four", "hello", "three", "two"]
    assert client.unread(first) == {}


def test_a_wait_of_a_resumed_run_does_not_end_by_a_message_that_was_moved(
    client: Client, settings: Settings
) -> None:
    first = client.send("ada", "hello", flow="hearing").run_id
    play(settings, first)
    client.send("ada", "two", key="2")
    client.request_stop(first, mode="now")
    second = client.send("ada", "two", flow="hearing", key="2").run_id
    play(settings, second)
    client.say(second, "bye")
    play(settings, second)
    assert client.get(second).answer == "bye"
    client.resume(first)
    play(settings, first, rounds=5)
    assert client.get(first).phase == "parked"
    client.say(first, "three")
    play(settings, first)
    assert client.get(first).answer == "three"


def test_a_live_run_that_held_the_thread_before_keeps_its_message(
    client: Client, settings: Settings
) -> None:
    first = client.send("ada", "hello", flow="hearing").run_id
    play(settings, first)
    client.send("ada", "two", key="2")
    client.request_stop(first, mode="now")
    second = client.send("ada", "other", flow="hearing").run_id
    client.resume(first)
    client.request_stop(second, mode="now")
    assert client.send("ada", "two", flow="hearing", key="2").run_id == first
    play(settings, first)
    assert client.get(first).answer == "two"


@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
def test_another_text_under_the_key_of_a_heard_message_is_refused(
    client: Client, settings: Settings, ended: bool
) -> None:
    run_id = client.send("ada", "hello", flow="talking", inputs={"rounds": 3}).run_id
    client.send("ada", "more", key="2")
    play(settings, run_id, rounds=10 if ended else 2)
    assert client.get(run_id).status.ended is ended
    assert client.send("ada", "more", key="2").run_id == run_id
    with pytest.raises(Conflict, match=f"thread ada: the key '2' .* run {run_id}"):
        client.send("ada", "other words", key="2")
    assert [text for role, text in texts(client) if role == "u"] == ["hello", "more"]


def test_what_a_run_knows_does_not_change_when_the_runs_before_are_deleted(
    client: Client, settings: Settings
) -> None:
    MEANWHILE.append(lambda context: counts.append(len(context.conversation)))
    counts: list[int] = []
    before = client.send("ada", "hello", flow="talking").run_id
    play(settings, before)
    run_id = client.send("ada", "again", flow="talking", inputs={"rounds": 2}).run_id
    play(settings, run_id, rounds=1)
    client.delete(before)
    play(settings, run_id)
    assert set(counts[1:]) == {2}
    third = client.send("ada", "third", flow="talking").run_id
    play(settings, third)
    assert client.get(third).answer == "4 before; third"
    assert [text for _, text in texts(client)][:1] == ["again"], "the deleted one cannot be read"


def test_messages_of_many_senders_are_each_heard_once(client: Client, settings: Settings) -> None:
    """Each is sent twice under its key, as by a sender who got no reply, while runs come and go."""
    senders, each = 4, 12
    engine, done = engine_of(make_app(settings)), threading.Event()

    def rests() -> bool:
        return all(run.status.ended for run in client.runs(thread_id="ada"))

    def work() -> None:
        while not done.is_set():
            for run in client.runs(thread_id="ada"):
                if not run.status.ended:
                    engine.rounds.run(run.id, 0, run.state.step)

    def send(sender: int) -> None:
        with closing(Client(settings=settings)) as own:
            for number in range(each):
                for _ in range(2):
                    own.send("ada", f"{sender}:{number}", flow="talking", key=f"{sender}:{number}")
                if number == 3 * sender:  # now and then, nothing is live
                    until(rests, "the end of the run", 30)

    working = threading.Thread(target=work)
    sending = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    with closing(engine):
        for thread in (working, *sending):
            thread.start()
        for thread in sending:
            thread.join(60)
        until(rests, "the end", 30)
        done.set()
        working.join(30)
    found = Counter(text for role, text in texts(client) if role == "u")
    assert found == Counter({f"{s}:{n}": 1 for s in range(senders) for n in range(each)})
    assert 1 < len(client.runs(thread_id="ada").runs) < senders * each


def test_a_run_gets_the_newest_messages_that_fit() -> None:
    def told(number: int, text: str = "x") -> ThreadMessage:
        return ThreadMessage("assistant" if number % 2 else "user", text, f"r{number}")

    many = [told(number) for number in range(400)]
    assert newest_of(many) == many[-100:]
    long = [told(number, "x" * (MOST_CHARACTERS // 4)) for number in range(10)]
    assert newest_of(long) == long[-4:]
    assert newest_of([told(0), told(1, "x" * MOST_CHARACTERS)]) == []


def test_bad_messages_are_named(client: Client) -> None:
    with pytest.raises(InvalidInput, match="thread should be letters"):
        client.send("a b", "hello", flow="talking")
    with pytest.raises(InvalidInput, match="text is empty"):
        client.send("ada", " ", flow="talking")
    with pytest.raises(UnknownFlow):
        client.send("ada", "hello", flow="unknown-flow")
    client.send("ada", "hello", flow="talking", key="k")
    with pytest.raises(Conflict):
        client.send("ada", "other", flow="talking", key="k")
    assert len(client.runs().runs) == 1


# Over HTTP, for asyncio, from the command line


def test_over_http_a_thread_belongs_to_its_caller(settings: Settings) -> None:
    with serving(settings, by_name) as url:
        with closing(RemoteClient(url, "ann:submit,read")) as ann:
            sent = ann.send("ada", "hello", flow="talking", key="k", inputs={"rounds": 1})
            assert sent == ann.send("ada", "hello", flow="talking", key="k", inputs={"rounds": 1})
            assert not ann.send("ada", "more").started, "the flow is that of its newest run"
            play(settings, sent.run_id)
            assert [each.text for each in ann.conversation("ada")] == [
                "hello",
                "more",
                "0 before; hello + more",
            ]
            assert [run.id for run in ann.runs(thread_id="ada")] == [sent.run_id]
            with pytest.raises(UnknownFlow):
                ann.send("ada", "hello", flow="unknown-flow")
            with pytest.raises(InvalidInput, match="thread should be letters"):
                ann.conversation("a/b")
            with pytest.raises(InvalidInput, match="has no run yet"):
                ann.send("bob", "hello")
        with closing(RemoteClient(url, "bob:submit,read")) as bob:
            assert bob.conversation("ada") == []
            assert bob.send("ada", "hello", flow="talking").run_id != sent.run_id
        with closing(RemoteClient(url, "ann:read")) as reader, pytest.raises(Forbidden):
            reader.send("ada", "hello", flow="talking")


def test_for_asyncio(settings: Settings) -> None:
    async def story() -> None:
        client = AsyncClient(settings=settings)
        sent = await client.send("ada", "hello", flow="talking")
        assert sent.started
        assert [each.run_id for each in await client.conversation("ada")] == [sent.run_id]

    asyncio.run(story())


def test_from_the_command_line(client: Client, settings: Settings, tmp_path: Path) -> None:
    call = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=MODULES[0])
    first = call("send", "ada", "hello", "--flow", "talking", "--key", "k", "--json")
    assert first.code == 0, first.err
    told = first.json
    assert told["started"] and told["thread"] == "ada"
    assert call("send", "ada", "more").out.strip() == told["run_id"], "the live run hears it"
    play(settings, told["run_id"])
    assert call("thread", "ada").out.splitlines() == [
        "you: hello",
        "you: more",
        f"run {told['run_id']}: 0 before; hello + more",
    ]
    roles = [each["role"] for each in call("thread", "ada", "--json").json]
    assert roles == ["user", "user", "assistant"]
    assert told["run_id"] in call("list", "--thread", "ada").out
    assert "nothing was sent" in call("thread", "bob").err
    assert call("send", "a b", "x", "--flow", "talking").code == 2
    nobody = call("send", "bob", "x")
    assert nobody.code == 2 and "has no run yet; name the flow of the first" in nobody.err
    wrong = call("list", "--thread", "a b")
    assert wrong.code == 2 and "thread should be letters" in wrong.err
    assert call("list", "--thread", "bob").code == 0
