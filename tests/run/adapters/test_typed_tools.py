"""Tools with nested models, literals and annotated values as arguments: the schema that a model
gets, and the values that the tool gets.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from perdure import Client, ControllerExecutorFlow, RunStatus, Settings, command, register
from perdure.flows.controllers.model import ModelController
from tests.support.chat_server import Says, chat_server
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving


class Line(BaseModel):
    """An article and its number."""

    article: str
    count: Annotated[int, Field(ge=1, description="pieces, at least one")] = 1


class Order(BaseModel):
    lines: list[Line]
    ship: Literal["air", "sea"] = "sea"


def test_a_model_is_told_the_types_of_a_tool_and_the_tool_gets_values_of_them(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch)
    ordered: list[Any] = []

    @register("ordering")
    class Ordering(ControllerExecutorFlow):
        controller = ModelController()

        @command(idempotent=True)
        def place(
            self, order: Order, urgency: Annotated[Literal["low", "high"], Field(title="U")] = "low"
        ) -> Order:
            """Place an order.

            Args:
                order: what to send.
                urgency: how soon.
            """
            ordered.append((order, urgency))
            return order

    wrong = {"order": {"lines": [{"article": "hat", "count": 0}]}, "urgency": "high"}
    right = {"order": {"lines": [{"article": "hat", "count": 2}], "ship": "air"}}
    script = [
        Says("", [("place", wrong)]),
        Says("", [("place", right)]),
        Says("", [("finish", {"answer": "sent"})]),
    ]
    with (
        chat_server(script) as chat,
        driving(settings.model_copy(update={"model_url": chat.url})) as driver,
    ):
        run = client.submit("ordering", "two hats by air")
        driver.play()
        ended = client.get(run.id)
        assert (ended.status, ended.answer) == (RunStatus.COMPLETED, "sent"), ended
        first, second, third = [asked.body for asked in chat.play.asked]

    tool = first["tools"][0]["function"]
    assert (tool["name"], tool["description"]) == ("place", "Place an order.")
    schema = tool["parameters"]
    assert schema["required"] == ["order"]
    assert schema["properties"]["order"]["description"] == "what to send."
    assert schema["properties"]["urgency"]["enum"] == ["low", "high"]
    assert schema["properties"]["urgency"]["description"] == "how soon."
    assert schema["$defs"]["Order"]["properties"]["ship"]["enum"] == ["air", "sea"]
    assert schema["$defs"]["Line"]["properties"]["count"]["minimum"] == 1
    assert schema["$defs"]["Line"]["properties"]["count"]["description"] == "pieces, at least one"

    assert "order.lines.0.count" in second["messages"][-1]["content"]
    assert ordered == [(Order(lines=[Line(article="hat", count=2)], ship="air"), "low")]
    assert '"count":2' in third["messages"][-1]["content"].replace(" ", "")
