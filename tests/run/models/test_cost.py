"""Charges in money: by the flow's price, the provider's own figure, or the price list; and requests
without a charge.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from perdure import FatalError, RoundContext
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import Usage
from perdure.flows.controllers.model.cost import money_of
from perdure.flows.controllers.model.setting_keys import PriceKeys
from perdure.flows.core.budgets import Budget
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Says, Sends, chat_server

FINISHES = Says("", [("finish", {"answer": 1})])
PRICE = {"input": 2.0, "output": 10.0, "cached": 0.5}
MONEY = {"money": Budget(0.5)}


def asked(
    server: ChatServer, model: str = "m", key: str | None = None, **settings: Any
) -> RoundContext:
    url = None if ":" in model else server.url
    context = RoundContext("g", endpoint=Endpoint(model, url, key), budgets=MONEY)
    call(ModelController(**settings).decide, context, context)
    return context


def test_a_price_of_the_flow_counts_by_url_and_in_estimates() -> None:
    with chat_server([FINISHES]) as server:
        context = asked(server, price=PRICE)
        estimate = ModelController(price=PRICE).estimate(
            RoundContext("g", endpoint=Endpoint("m", server.url))
        )
    assert (
        context.spent["money"] == pytest.approx((100 * 2 + 10 * 10) / 1e6)
        and "unpriced" not in context.told
    )
    assert estimate["money"] == pytest.approx(
        (estimate["input_tokens"] * 2 + estimate["output_tokens"] * 10) / 1e6
    )


def test_cached_tokens_have_their_own_price() -> None:
    usage = Usage(1_000, 100, 9.0, cached_tokens=800)
    assert money_of(usage, PriceKeys(**PRICE)) == pytest.approx(
        (200 * 2 + 800 * 0.5 + 100 * 10) / 1e6
    )
    assert money_of(usage, PriceKeys(input=2.0, output=10.0)) == pytest.approx(
        (1_000 * 2 + 100 * 10) / 1e6
    )
    assert money_of(usage, None) == 9.0


@pytest.mark.parametrize("tokens", [(100, 10), None])
def test_a_budget_of_money_without_a_price_says_so_in_the_first_round(
    tokens: tuple[int, int] | None,
) -> None:
    with chat_server([replace(FINISHES, tokens=tokens)]) as server:
        context = asked(server)
        assert "has no effect" in context.told["unpriced"] and "money" not in context.spent
        later = RoundContext(
            "g",
            endpoint=Endpoint("m", server.url),
            budgets=MONEY,
            committed={"_model": [100, 10, None, 0]},
        )
        call(ModelController().decide, later, later)
    assert "unpriced" not in later.told


def test_a_flow_may_refuse_to_ask_a_model_without_a_price() -> None:
    with chat_server([FINISHES]) as server:
        with pytest.raises(FatalError, match=r"no price is known for model 'm'.*unpriced: refuse"):
            asked(server, unpriced="refuse")
        assert server.play.asked == []
        asked(server, unpriced="refuse", price=PRICE)
        asked(server, "gpt-4o", unpriced="refuse")
    assert len(server.play.asked) == 2


def tells(**usage: Any) -> Sends:
    """Return a reply that calls ``finish``, with more fields of usage than tokens."""
    base = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "openai/gpt-4o",
        "provider": "OpenAI",
    }
    arguments = {"name": "finish", "arguments": '{"answer": 1}'}
    delta = {
        "role": "assistant",
        "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": arguments}],
    }
    tokens = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    events = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {
            **base,
            "choices": [
                {
                    "index": 0,
                    "delta": {},
                    "finish_reason": "tool_calls",
                    "native_finish_reason": "tool_calls",
                }
            ],
        },
        {**base, "choices": [], "usage": {**tokens, **usage}},
    ]
    return Sends(
        "".join(f"data: {json.dumps(each)}\n\n" for each in events).encode() + b"data: [DONE]\n\n"
    )


def test_what_openrouter_asks_for_is_what_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TEST_KEY", "k")
    with chat_server(faults={0: [tells(cost=0.0123)]}) as server:
        monkeypatch.setattr(
            "pydantic_ai.providers.openrouter.OpenRouterProvider.base_url", server.url
        )
        context = asked(server, "openrouter:openai/gpt-4o", "env:HF_TEST_KEY", unpriced="refuse")
    assert context.spent["money"] == 0.0123


@pytest.mark.parametrize(
    ("cost", "money"),
    [(0.0123, 0.0123), (0, 0.0), (None, None), (-1, None), (True, None), ("free", None)],
)
def test_what_a_server_by_url_asks_for_is_what_is_charged(cost: Any, money: float | None) -> None:
    with chat_server(faults={0: [tells(cost=cost)]}) as server:
        context = asked(server)
    assert context.spent.get("money") == money
    assert ("unpriced" in context.told) == (money is None)


NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_a_cost_without_tokens_is_charged_with_estimated_tokens() -> None:
    with chat_server(faults={0: [tells(cost=0.5, **NOTHING)] * 2}) as server:
        context = asked(server)
        priced = asked(server, price=PRICE)
    assert (context.spent["money"], "unpriced" in context.told) == (0.5, False)
    assert context.spent["tokens"] > 0 and priced.spent["money"] < 0.5


def test_a_usage_that_cannot_be_is_estimated() -> None:
    with chat_server(faults={0: [tells(prompt_tokens=10**20)]}) as server:
        assert 0 < asked(server).spent["input_tokens"] < 10**6


@pytest.mark.parametrize(("last", "charged"), [(0, 1_000), (7, 7)])
def test_the_input_that_a_stream_reported_first_is_charged_if_it_ends_with_0(
    last: int, charged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anthropic")
    monkeypatch.setenv("HF_KEY", "k")
    message = {"id": "i", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 1_000, "output_tokens": 1}
    call_of_finish = {"type": "tool_use", "id": "t", "name": "finish", "input": {"answer": 1}}
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": call_of_finish},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": ending,
            "usage": {"input_tokens": last, "output_tokens": 50},
        },
        {"type": "message_stop"},
    ]
    raw = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    with chat_server(faults={0: [Sends(raw.encode())]}) as server:
        own = {"api_key": "env:HF_KEY", "provider": {"base_url": server.url}}
        context = RoundContext("g")
        call(ModelController(model="anthropic:m", **own).decide, context, context)
    spent = context.spent
    assert (spent["input_tokens"], spent["output_tokens"]) == (charged, 50)


def test_the_price_of_the_flow_goes_before_what_a_server_asks_for() -> None:
    with chat_server(faults={0: [tells(cost=0.0123)]}) as server:
        assert asked(server, price=PRICE).spent["money"] == pytest.approx((100 * 2 + 10 * 10) / 1e6)


@pytest.mark.parametrize(
    ("usage", "texts", "tokens"),
    [
        ({}, [], 0),
        ({"input_tokens": 500}, [], 500),
        ({}, ["words"], None),
        ({"unmeasured_requests": 1}, [], None),
    ],
)
def test_a_usage_of_nothing_is_told_where_nothing_was_said(
    usage: dict[str, int], texts: list[str], tokens: int | None
) -> None:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    from perdure.flows.controllers.model.provider_replies import usage_of

    response = ModelResponse(
        [TextPart(text) for text in texts],
        usage=RequestUsage(**usage),
        finish_reason="content_filter",
    )
    read = usage_of(response)
    assert (None if read is None else read.input_tokens + read.output_tokens) == tokens
    assert read is None or tokens or read.money == 0
