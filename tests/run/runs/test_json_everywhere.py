"""Values that pydantic writes as JSON are accepted everywhere from users, and read back as JSON
data.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    RemoteClient,
    RoundContext,
    Settings,
    Steps,
    command,
    register,
    workflow,
)
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver, driving
from tests.support.threaded_server import serving


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Size:
    width: Decimal


class Box(BaseModel):
    size: Size
    made: date


VALUES: dict[str, Any] = {
    "at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    "on": date(2026, 1, 2),
    "price": Decimal("12.50"),
    "id": UUID(int=1),
    "colour": Colour.RED,
    "path": Path("/srv"),
    "tags": {"b", "a"},
    "size": Size(Decimal("1.5")),
    "box": Box(size=Size(Decimal("2")), made=date(2026, 1, 2)),
}
PLAIN: dict[str, Any] = {
    "at": "2026-01-02T03:04:00Z",
    "on": "2026-01-02",
    "price": "12.50",
    "id": str(UUID(int=1)),
    "colour": "red",
    "path": "/srv",
    "tags": ["a", "b"],
    "size": {"width": "1.5"},
    "box": {"size": {"width": "2"}, "made": "2026-01-02"},
}


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)

    @register("handing")
    class Handing(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Any:
            match len(context.history):
                case 0:
                    context.remember("remembered", VALUES)
                    return Command("take", {"values": VALUES, "at": VALUES["at"]})
                case 1 if not context.answered:
                    return Interrupt("is this right?", data=VALUES)
                case 1:
                    context.tell(answer=context.answer)
                    return [Command("wait"), Command("child")]
                case 2:
                    return Command("child")
            return Finish({"values": VALUES, "inputs": dict(context.inputs)})

        @command(idempotent=True)
        def take(self, context: RoundContext, values: dict[str, Any], at: datetime) -> Any:
            assert at == VALUES["at"] and values == PLAIN
            assert context.once("recorded", lambda: VALUES) == PLAIN
            context.tell(told=VALUES)
            return VALUES

        @command(idempotent=True, waits=True)
        def wait(self, context: RoundContext) -> Any:
            signal = context.wait_for("paid")
            assert signal is not None
            context.reply(signal, VALUES)
            return signal.payload

        @command(idempotent=True, waits=True)
        def child(self, context: RoundContext) -> Any:
            return context.child("stepping", "x", {"values": VALUES})

    @workflow("stepping")
    def stepping(steps: Steps, values: dict[str, Any]) -> Any:
        def work(given: Any) -> Any:
            return {"given": given, "own": VALUES}

        result = steps.step(work, values)
        assert result == {"given": PLAIN, "own": PLAIN}
        return VALUES

    with driving(settings) as made:
        yield made


@pytest.mark.parametrize("over", ["redis", pytest.param("http", marks=pytest.mark.slow)])
def test_values_go_in_and_come_back(
    client: Client, driver: Driver, settings: Settings, over: str
) -> None:
    def play(user: Any) -> None:
        run = user.submit("handing", "x", VALUES, idempotency_key="one")
        assert user.submit("handing", "x", VALUES, idempotency_key="one").id == run.id
        assert run.inputs == PLAIN
        driver.play()
        [waiting] = user.inbox()
        assert waiting.data == PLAIN
        user.resume(run.id, VALUES)
        driver.play()
        receipt = user.signal(run.id, "paid", VALUES)
        for _ in range(3):
            driver.sweep_and_play()
        ended = user.get(run.id)
        assert ended.answer == {"values": PLAIN, "inputs": PLAIN}, ended
        assert user.reply(run.id, receipt.number, "paid").value == PLAIN
        history = user.transcript(run.id)["history"]
        assert [turn["observation"] for turn in history] == [PLAIN, PLAIN, PLAIN]

    if over == "redis":
        play(client)
        return
    with serving(settings) as url:
        remote = RemoteClient(url)
        play(remote)
        remote.close()
