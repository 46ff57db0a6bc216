"""Words and questions for a run that works, and its values read meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from perdure import AsyncClient, Client, InvalidTransition, RemoteClient, RoundContext, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.cli.main import run as perdure
from perdure.worker.errors import InvalidInput, ValueNotFound
from perdure.worker.store.rounds import RoundTransitions
from tests.support.example_flows.steered_runs import MEANWHILE
from tests.support.in_process_runtime import sweeping
from tests.support.redis_servers import until
from tests.support.round_driver import LASTING, driving
from tests.support.runs import hash_of
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.steered_runs",))


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


def test_the_page_offers_to_say_something_only_if_the_run_reads_it(
    client: Client, settings: Settings
) -> None:
    runs = [client.submit("steered", "g"), client.submit("asked_ring", "g")]
    runs.append(client.submit("plain_workflow"))
    with serving(settings) as url:
        pages = [httpx2.get(f"{url}/runs/{run.id}").text for run in runs]
    assert ["Say something" in page for page in pages] == [True, False, False]


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


def test_a_run_whose_finish_is_put_off_keeps_the_build_of_its_code(
    client: Client, settings: Settings
) -> None:
    run = client.submit("steered", "g")
    MEANWHILE[run.id] = lambda context: client.say(context.run_id, "more") and None
    with driving(settings) as driver:
        message = driver.take()
        assert message is not None
        driver.engine.rounds.run(*message)
        fields = hash_of(driver.engine.store, run.id)
        assert fields["current_node"] and fields["build"] == driver.engine.builds["steered"]


def test_words_for_a_flow_without_a_controller_are_told_at_once_and_when_the_run_ends(
    client: Client,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERDURE_REDIS_URL", settings.redis_url or "")
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    monkeypatch.setenv("PERDURE_FLOW_MODULES", "tests.support.example_flows.steered_runs")
    for name, seconds in LASTING.items():
        monkeypatch.setenv(f"PERDURE_{name.upper()}", str(seconds))
    deaf, hears = client.submit("asked_ring", "g"), client.submit("steered", "g")
    function = client.submit("plain_workflow")
    with driving(settings) as worker:
        worker.sweeper_of_a_worker().announce()  # The command reads the announcements of workers.
    assert perdure(["say", deaf.id, "hello"]) == 0
    said = capsys.readouterr()
    assert "flow 'asked_ring' has no controller" in said.err and "hears it" not in said.out
    assert perdure(["say", function.id, "hello"]) == 0
    said = capsys.readouterr()
    assert "flow 'plain_workflow' has no controller" in said.err and "hears it" not in said.out
    assert perdure(["say", hears.id, "hello"]) == 0
    said = capsys.readouterr()
    assert "its controller hears it in its next round" in said.out and not said.err
    client.signal(deaf.id, "price", 1)
    play(settings, deaf.id)
    assert client.get(deaf.id).finished
    (unread,) = [event for event in client.events(deaf.id) if event.type == "unread"]
    assert unread.data == {"signals": "say 1"}


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


def test_a_reply_that_is_too_long_fails_its_round(client: Client, settings: Settings) -> None:
    small = settings.model_copy(update={"max_addition_bytes": 2_000})
    run = client.submit("asked_ring", "g")
    client.signal(run.id, "price", "x" * 3_000)
    play(small, run.id, rounds=1)
    assert "the replies to signals take" in client.get(run.id).details["last_error"]
    assert client.unread(run.id) == {"price": 1}


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


def test_a_worker_that_dies_between_the_refusal_and_the_commit_loses_nothing(
    client: Client, settings: Settings
) -> None:
    """Another worker plays the round again, and reads all messages; its reply is the only one."""
    run = client.submit("steered", "g")
    died: list[int] = []

    def say_and_die(context: RoundContext) -> None:
        if not died and context.step == 0:
            client.say(context.run_id, "one")
            client.signal(context.run_id, "ask", "status?")

    MEANWHILE[run.id] = say_and_die
    with (
        closing(engine_of(make_app(settings))) as engine,
        pytest.MonkeyPatch.context() as patched,
    ):
        commit = RoundTransitions.commit_and_fetch

        def once(rounds: RoundTransitions, *args: Any, **options: Any) -> Any:
            if died:
                raise KeyboardInterrupt  # dies in the second commit of its round
            reply = commit(rounds, *args, **options)
            died.extend([1] if reply.word == "unread" else [])
            return reply

        patched.setattr(RoundTransitions, "commit_and_fetch", once)
        with pytest.raises(KeyboardInterrupt):
            engine.rounds.run(run.id, 0, 0)
    assert died and client.unread(run.id) == {"say": 1, "ask": 1}
    key = client._store.keys.run(run.id)
    client._store.redis.hset(key, "lease_until", "1")
    client._store.redis.zadd(client._store.keys.due, {run.id: 1})
    with sweeping(client, settings):
        until(lambda: client.get(run.id).phase == "queued", "another's turn")
    play(settings, run.id)
    assert client.get(run.id).answer == [{"replied": 1}, ["one"]]
    assert client.reply(run.id, 1).value == "at 0"


def test_over_http_a_run_is_steered_alike(client: Client, settings: Settings) -> None:
    run = client.submit("steered", "g", {"rounds": 2})
    with serving(settings) as url, closing(RemoteClient(url)) as remote:
        assert remote.say(run.id, "look").number == 1
        assert remote.unread(run.id) == {"say": 1}
        with pytest.raises(TimeoutError, match="not replied"):
            remote.ask(run.id, "status?", timeout=0)
        with pytest.raises(ValueNotFound, match="it has none"):
            remote.value(run.id, "plan")
        with pytest.raises(InvalidInput, match="no signal 9"):
            remote.reply(run.id, 9)
        asks = f"{url}/api/v1/runs/{run.id}/asks/ask"
        body, key = {"payload": "how far?"}, {"Idempotency-Key": "k"}
        later = httpx2.post(f"{asks}?wait=0.05", json=body, headers=key)
        where = later.headers["Location"]
        assert (later.status_code, where) == (202, f"/api/v1/runs/{run.id}/asks/ask/2")
        assert httpx2.get(f"{url}{where}").json() == later.json()
        asked: list[Any] = []
        asking = threading.Thread(
            target=lambda: asked.append(remote.ask(run.id, "and now?", timeout=20))
        )
        asking.start()
        until(lambda: client.unread(run.id) == {"say": 1, "ask": 3}, "the third question")
        play(settings, run.id, rounds=7)
        asking.join(20)
        assert asked == ["at 2"]
        assert remote.reply(run.id, 1) == client.reply(run.id, 1)
        now = httpx2.post(asks, json=body, headers=key)
        assert (now.status_code, now.json()["value"]) == (200, "at 1")
        play(settings, run.id, rounds=20)
        assert remote.values(run.id) == client.values(run.id)
        assert remote.value(run.id, "answer", wait=5) == client.get(run.id).answer
        value = f"{url}/api/v1/runs/{run.id}/values/answer"
        waits = {wait: httpx2.get(f"{value}?wait={wait}").status_code for wait in (-1, 0, 30, 30.5)}
        assert waits == {-1: 422, 0: 200, 30: 200, 30.5: 422}


def test_asked_without_a_thread_for_each(client: Client, settings: Settings) -> None:
    async def story() -> None:
        at = AsyncClient(settings=settings)
        run = await at.submit("steered", "g", {"rounds": 1})
        await at.say(run.id, "look")
        asking = asyncio.create_task(at.ask(run.id, "status?", timeout=20))
        valued = asyncio.create_task(at.value(run.id, "answer", wait=20))
        both = {"say": 1, "ask": 1}
        await asyncio.to_thread(until, lambda: client.unread(run.id) == both, "the question")
        await asyncio.to_thread(play, settings, run.id)
        assert await asking == "at 0"
        assert await valued == (await at.get(run.id)).answer
        with pytest.raises(ValueNotFound):
            await at.value(run.id, "nothing", wait=20)
        with pytest.raises(InvalidTransition):
            await at.ask(run.id, "too late?")
        assert "plan" not in await at.values(run.id)
        await at.close()

    asyncio.run(story())
