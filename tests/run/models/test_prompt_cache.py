"""Prompt caching: the requests that ask for it, the end of the cached part, and the charge for
cached tokens.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import BadReply, Command, FatalError, History, RoundContext, Turn
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import Usage
from perdure.flows.controllers.model.cost import figures, money_of
from perdure.flows.controllers.model.setting_keys import PriceKeys
from perdure.flows.core.budgets import Budget
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Fails, Says, chat_server

COMMANDS = [{"name": "finish", "description": "", "parameters": {"type": "object"}}]
TURNS = [Turn(Command("read", {}, {"thought": "hm"}, "i1", 0), "the page")]
BEDROCK = "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def body_of(
    server: ChatServer, model: str, provider: dict[str, Any] | None, spent: float = 1, **more: Any
) -> dict[str, Any]:
    """Return the body of a request that the server refuses, of a run that has spent this many of 10
    tokens.
    """
    context = RoundContext(
        "g",
        commands=COMMANDS,
        history=History(1, TURNS, lambda start, stop: TURNS[start:stop]),
        budgets={"tokens": Budget(10, spent)},
        endpoint=Endpoint(None, None if ":" in model else server.url),
    )
    controller = ModelController(
        model=model, api_key="env:HF_KEY" if provider else None, provider=provider, **more
    )
    with pytest.raises((FatalError, BadReply)):
        call(controller.decide, context, context)
    return dict(server.play.asked[-1].body)


def marks(body: dict[str, Any], name: str = "cache_control") -> list[str]:
    """Return the marked parts of a request: the ends of tools, system prompt and texts."""
    found = []
    if name in json.dumps(body.get("tools", [])):
        found.append("tools")
    system = body.get("system") or [each for each in body["messages"] if each["role"] == "system"]
    if name in json.dumps(system):
        found.append("system")
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        content = message["content"]
        parts = content if isinstance(content, list) else []
        texts = [json.dumps(part) for part in parts]
        for place, text in enumerate(texts):
            if name in text and name == "cache_control":
                found.append("page" if "the page" in text else "budget" if "spent" in text else "?")
            elif text.startswith(f'{{"{name}"'):
                before = texts[place - 1] if place else ""
                found.append("page" if "the page" in before else "budget")
    return found


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_KEY", "k")
    monkeypatch.setenv("HF_SECRET", "s")


def test_anthropic_is_asked_for_its_cache_unless_the_flow_says_otherwise() -> None:
    pytest.importorskip("anthropic")
    with chat_server(faults={0: [Fails(400)] * 9}) as server:
        own = {"base_url": server.url}
        name = "anthropic:claude-sonnet-4-6"
        assert marks(body_of(server, name, own)) == ["tools", "system", "page"]
        assert marks(body_of(server, name, own, settings={"cache": False})) == []
        only = {"anthropic_cache_instructions": True}
        assert marks(body_of(server, name, own, settings=only)) == ["system"]
        long = body_of(server, name, own, settings={"cache": "1h"})
        assert '"ttl": "1h"' in json.dumps(long)


def test_what_holds_for_one_request_only_is_behind_the_cached_part() -> None:
    pytest.importorskip("anthropic")
    with chat_server(faults={0: [Fails(400)] * 9}) as server:
        own = {"base_url": server.url}
        name = "anthropic:claude-sonnet-4-6"
        low = body_of(server, name, own, spent=9)
        assert marks(low) == ["tools", "system", "page", "budget"]
        assert "nearly spent" in low["messages"][-1]["content"][-1]["text"]
        off = body_of(server, name, own, spent=9, settings={"cache": False})
        assert off["messages"][-1]["content"][-1]["text"].startswith("The budget")


def test_bedrock_is_asked_for_its_cache() -> None:
    pytest.importorskip("boto3")
    with chat_server(faults={0: [Fails(400)] * 9}) as server:
        own = {
            "base_url": server.url,
            "region_name": "us-east-1",
            "aws_access_key_id": "env:HF_KEY",
            "aws_secret_access_key": "env:HF_SECRET",
        }

        def bedrock(**more: Any) -> str:
            controller = ModelController(model=BEDROCK, provider=own, **more)
            turns = History(1, TURNS, lambda start, stop: TURNS[start:stop])
            context = RoundContext(
                "g", commands=COMMANDS, history=turns, budgets={"tokens": Budget(10, 9)}
            )
            with pytest.raises(FatalError):
                call(controller.decide, context, context)
            return json.dumps(server.play.asked[-1].body)

        asked = bedrock()
        assert asked.count("cachePoint") == 4, "behind tools, system prompt, page and budget"
        assert asked.index("the page") < asked.index("cachePoint") < asked.index("nearly spent")
        assert "cachePoint" not in bedrock(settings={"cache": False})


def test_openrouter_is_asked_for_models_that_have_to_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chat_server([Says("", [("finish", {"answer": 1})])]) as server:
        monkeypatch.setattr(
            "pydantic_ai.providers.openrouter.OpenRouterProvider.base_url", server.url
        )
        for model, asked in (("anthropic/claude-sonnet-4.5", True), ("openai/gpt-5", False)):
            context = RoundContext("g", commands=COMMANDS)
            controller = ModelController(model=f"openrouter:{model}", api_key="env:HF_KEY")
            call(controller.decide, context, context)
            assert ("cache_control" in json.dumps(server.play.asked[-1].body)) == asked


def test_a_server_by_url_gets_nothing_that_it_may_not_know() -> None:
    with chat_server(faults={1: [Fails(400)] * 9}) as server:
        body = body_of(server, "gpt-5.6", None, spent=9)
    assert "cache" not in json.dumps(body)
    assert isinstance(body["messages"][-1]["content"], str)


def test_openai_gets_a_key_for_all_requests_of_a_run_and_other_servers_do_not() -> None:
    from perdure.flows.controllers.model.prompt_cache import with_caching

    def options(url: str, run_id: str = "run", **own: Any) -> dict[str, Any]:
        model: Any = SimpleNamespace(system="openai", base_url=url)
        return with_caching(own, model, run_id)

    theirs, other = "https://api.openai.com/v1/", "https://gateway.example.com/v1"
    [key] = options(theirs).values()
    assert list(options(theirs)) == ["openai_prompt_cache_key"] and len(key) == 32
    assert options(theirs) == options(theirs) != options(theirs, "another")
    assert options(other) == {} and options(theirs, cache=False) == {"cache": False}
    assert options(theirs, openai_prompt_cache_key="mine") == {"openai_prompt_cache_key": "mine"}


def test_what_was_cached_is_charged_by_its_price_and_told() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    from perdure.flows.controllers.model.provider_replies import usage_of

    response = ModelResponse(
        [TextPart("x")],
        usage=RequestUsage(
            input_tokens=1_000, output_tokens=100, cache_read_tokens=800, cache_write_tokens=100
        ),
        model_name="claude-sonnet-4-5",
        provider_name="anthropic",
    )
    usage = usage_of(response)
    assert usage is not None
    assert (usage.cached_tokens, usage.cache_write_tokens) == (800, 100)
    assert usage.money == pytest.approx((100 * 3 + 800 * 0.3 + 100 * 3.75 + 100 * 15) / 1e6)
    assert usage.money_uncached == pytest.approx((1_000 * 3 + 100 * 15) / 1e6)
    price = PriceKeys(input=2.0, output=10.0, cached=0.5, cache_write=2.5)
    assert money_of(usage, price) == pytest.approx(
        (100 * 2 + 800 * 0.5 + 100 * 2.5 + 100 * 10) / 1e6
    )


def test_the_next_request_is_estimated_as_if_nothing_was_cached() -> None:
    usage = Usage(1_000, 100, 0.001, 800, 100, money_uncached=0.0045)
    context = RoundContext("g")
    assert figures(usage, None, context)[2] == 0.0045
    price = PriceKeys(input=2.0, output=10.0, cached=0.5)
    assert figures(usage, price, context)[2] == pytest.approx((1_000 * 2 + 100 * 10) / 1e6)
    assert figures(Usage(10, 1, 0.5), None, context)[2] == 0.5
