"""FakeModel: flows with the controller ``model`` get their replies from a script or a function, in
any process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    InvalidFlow,
    Retry,
    RetryableError,
    RunStatus,
    Settings,
    command,
    register,
)
from perdure.flows.controllers.model import ModelController
from perdure.testing import FakeMessage, FakeModel, FakeReply, Lab
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import CrashableServer, until
from tests.support.round_driver import Driver, driving


class Booking(BaseModel):
    """The flight that was booked."""

    city: str
    euros: int


class Travel(ControllerExecutorFlow):
    """Books a flight."""

    name = "travel"
    Answer = Booking
    controller = ModelController()

    @command(idempotent=True)
    def price(self, city: str) -> int:
        """Return the price of a flight.

        Args:
            city: where to.
        """
        return {"Rome": 80, "Oslo": 120}[city]


class AtOnce(Travel):
    """Books at once."""

    parallel_calls = 4

    @command(idempotent=True)
    def book(self, city: str) -> Finish:
        """Book a flight."""
        return Finish(Booking(city=city, euros=80))


BOOKED = {"city": "Rome", "euros": 80}
SCRIPT = [
    FakeReply(
        "I compare two prices.",
        [Command("price", {"city": "Rome"}), Command("price", {"city": "Oslo"})],
    ),
    "Rome is cheaper.",  # A text is no answer of this type.
    Finish({"city": "Rome"}),  # Nor is this.
    Finish(Booking(**BOOKED)),
]


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)
    register("travel")(Travel)
    register("at_once")(AtOnce)
    register("words")(type("Words", (Travel,), {"Answer": None}))
    with driving(settings) as made:
        yield made


def played(
    client: Client, driver: Driver, goal: str = "x", flow: str = "travel", **options: Any
) -> str:
    run = client.submit(flow, goal, **options)
    driver.play()
    return run.id


def test_a_script_decides_and_a_model_corrects_its_answer(client: Client, driver: Driver) -> None:
    with FakeModel(SCRIPT) as model:
        run_id = played(client, driver, "Rome or Oslo?")
    assert client.result(run_id, 1) == Booking(**BOOKED)
    history = client.transcript(run_id)["history"]
    assert [turn["observation"] for turn in history[:2]] == [80, 120]
    assert "calls no command" in str(history[2]["observation"])
    assert "euros: Field required" in str(history[3]["observation"])
    assert [len(request.messages) for request in model.requests] == sorted(
        len(request.messages) for request in model.requests
    )
    first, last = model.requests[0], model.requests[-1]
    assert (first.run_id, first.step, first.attempt) == (run_id, 0, 1)
    assert [message.role for message in first.messages] == ["system", "user"]
    assert first.messages[1].text == "Rome or Oslo?"
    [price, finish] = first.commands
    assert price["parameters"]["properties"]["city"]["description"] == "where to."
    assert finish["parameters"]["properties"]["answer"]["required"] == ["city", "euros"]
    said = [message for message in last.messages if message.role == "assistant"]
    assert [call.args for call in said[0].calls] == [{"city": "Rome"}, {"city": "Oslo"}]
    assert [(each.command, each.text) for each in last.messages if each.role == "tool"][:2] == [
        ("price", "80"),
        ("price", "120"),
    ]
    assert client.get(run_id).details["spent"]["tokens"] == 4 * 110


def test_calls_at_once_may_end_the_run_with_its_typed_answer(
    client: Client, driver: Driver
) -> None:
    calls = [Command("price", {"city": "Rome"}), Command("book", {"city": "Rome"})]
    with FakeModel([calls]):
        run_id = played(client, driver, flow="at_once")
        driver.sweep_and_play()
    assert client.result(run_id, 1) == Booking(**BOOKED)
    assert len(client.children(run_id)) == 2


def test_a_text_is_the_answer_of_a_flow_that_takes_one(client: Client, driver: Driver) -> None:
    with FakeModel(["It is Rome."]):
        assert client.result(played(client, driver, flow="words"), 1) == "It is Rome."


def test_a_function_replies_to_what_it_reads(client: Client, driver: Driver) -> None:
    def reply(
        messages: Sequence[FakeMessage], commands: Sequence[Mapping[str, Any]]
    ) -> Command | Finish:
        assert [each["name"] for each in commands] == ["price", "finish"]
        prices = [message for message in messages if message.role == "tool"]
        if not prices:
            return Command("price", {"city": messages[-1].text})
        return Finish({"city": "Oslo", "euros": int(prices[0].text)})

    with FakeModel(reply):
        run_id = played(client, driver, "Oslo")
    assert client.result(run_id, 1) == Booking(city="Oslo", euros=120)


def test_an_error_is_raised_in_the_first_attempt_and_the_next_gets_the_reply(
    client: Client, driver: Driver
) -> None:
    script = [RetryableError("too busy", retry_after=0), ValueError("garbled"), Finish(BOOKED)]
    with FakeModel(script) as model:
        run_id = played(client, driver, retry={"max_attempts": 5})
        for _ in range(100):
            if client.get(run_id).status.ended:
                break
            driver.sweep_and_play()
            time.sleep(0.05)
    assert client.result(run_id, 1) == Booking(**BOOKED)
    assert [request.attempt for request in model.requests] == [1, 2, 3]


def test_the_reply_comes_in_word_by_word_and_after_its_delay(
    client: Client, driver: Driver
) -> None:
    reply = FakeReply("Rome is cheaper.", [Finish(BOOKED)], thinking="80 < 120", delay=0.3)
    with FakeModel([reply]):
        began = time.monotonic()
        run_id = played(client, driver)
        assert time.monotonic() - began >= 0.3
    assert client.result(run_id, 1) == Booking(**BOOKED)


def test_a_script_that_is_too_short_says_so(client: Client, driver: Driver) -> None:
    with FakeModel([Command("price", {"city": "Rome"})]):
        run = client.get(played(client, driver))
    assert run.status is RunStatus.ERRORED and run.error is not None
    assert "has 1 replies, and the run asks for one more" in run.error


def test_a_name_that_is_none_and_a_model_that_nobody_has_made(
    client: Client, driver: Driver
) -> None:
    with pytest.raises(InvalidFlow, match="cannot be its name"):
        FakeModel([], name="no name")
    FakeModel([], name="clerk")

    @register("unknown")
    class Unknown(Travel):
        controller = ModelController(model="fake:clark")

    vars(driver.engine).pop("flows", None)
    vars(driver.engine).pop("rounds", None)
    run = client.get(played(client, driver, flow="unknown"))
    assert "did you mean 'fake:clerk'" in str(run.error)


@pytest.mark.parametrize(
    ("first", "fallback"),
    [
        ("busy", {"busy_seconds": 0}),  # It is asked once.
        ("busy", {"busy_seconds": None}),  # It is asked in each attempt.
        ("nobody", {}),
    ],
)
def test_the_next_model_is_asked_if_one_is_busy_or_unknown(
    client: Client, driver: Driver, first: str, fallback: dict[str, Any]
) -> None:
    busy = FakeModel(lambda messages, commands: RetryableError("busy", retry_after=0), name="busy")
    FakeModel([Finish(BOOKED)], name="free")

    @register("choosy")
    class Choosy(Travel):
        retry = Retry(max_attempts=2)
        controller = ModelController(models=[f"fake:{first}", "fake:free"], fallback=fallback)

    vars(driver.engine).pop("flows", None)
    vars(driver.engine).pop("rounds", None)
    run_id = played(client, driver, flow="choosy")

    def ended() -> bool:
        driver.sweep_and_play()
        return client.get(run_id).status.ended

    until(ended, "the answer")
    assert client.result(run_id, 1) == Booking(**BOOKED)
    is_patient = "busy_seconds" in fallback and fallback["busy_seconds"] is None
    assert len(busy.requests) == (2 if is_patient else 1 if first == "busy" else 0)


@pytest.mark.slow
def test_the_crash_lab_finds_nothing_in_a_flow_with_a_fake_model(server: CrashableServer) -> None:
    with FakeModel(SCRIPT) as model, Lab(server.url) as lab:
        report = lab(Travel, "Rome or Oslo?", limit=12)
    assert report.undisturbed.answer == BOOKED and len(model.requests) > 12
