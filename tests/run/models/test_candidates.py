"""Several models: which is asked first, which failures lead to the next, and the run's memory of
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from perdure import Command, FatalError, RetryableError, RoundContext
from perdure.flows.commands.calls import call
from perdure.flows.commands.controller import InvalidController
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.candidates import IN_USE, candidates_of
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_refusals import REFUSED
from tests.support.chat_server import ChatServer, Cuts, Ends, Fails, Fault, Says, Sends, chat_server

FINISHES = Says("", [("finish", {"answer": 1})])
COMMANDS = [{"name": "finish", "description": "", "parameters": {"type": "object"}}]
NO_KEY = Sends(b'data: {"error": {"code": "invalid_api_key", "message": "no"}}\n\n')
GONE = Fails(404, {"error": {"message": "no such model"}})


@contextmanager
def servers(
    *faults: Sequence[Fault | None],
) -> Iterator[tuple[list[ChatServer], list[dict[str, Any]]]]:
    """Start a server for each model, with faults for its requests; yield them and the entries that
    name them.
    """
    with ExitStack() as stack:
        running = [stack.enter_context(chat_server([FINISHES], {0: list(each)})) for each in faults]
        entries = [
            {"model": name, "base_url": server.url}
            for name, server in zip("abc", running, strict=False)
        ]
        yield running, entries


def decide(models: Any, context: RoundContext | None = None, **settings: Any) -> RoundContext:
    context = context or RoundContext("g", commands=COMMANDS)
    decision = call(ModelController(models=models, **settings).decide, context, context)
    assert isinstance(decision[0] if isinstance(decision, list) else decision, Command)
    return context


def asked(running: list[ChatServer]) -> list[int]:
    return [len(server.play.asked) for server in running]


def test_a_model_that_is_gone_is_left_and_the_run_goes_on_with_the_next() -> None:
    with servers([GONE], [None]) as (running, models):
        context = decide(models)
        assert context.told["model"] == "b" and asked(running) == [1, 1]
        assert context.told["fallback"] == "model 'a' answers 404: no such model"
        assert context.spent["requests"] == 1, "what was refused costs nothing"
        later = RoundContext("g", commands=COMMANDS, committed=dict(context.remembered))
        decide(models, later)
        assert asked(running) == [1, 2], "the next round asks the one that answered"
        assert "fallback" not in later.told and IN_USE not in later.remembered


def test_a_run_whose_second_model_fails_too_goes_back_to_the_first() -> None:
    with servers([GONE, None], [None, GONE]) as (running, models):
        context = decide(models)
        again = RoundContext("g", commands=COMMANDS, committed=dict(context.remembered))
        decide(models, again)
        assert asked(running) == [2, 2] and again.told["model"] == "a"
        assert again.remembered[IN_USE] != context.remembered[IN_USE]


def since(models: list[dict[str, Any]], seconds: float) -> Journal:
    """Return the journal of a step whose first model has been busy for this time."""
    first = candidates_of(ModelController(models=models).settings, RoundContext("g"))[0]
    context = RoundContext("g")
    with pytest.raises(RetryableError):
        decide(models, context)
    [(name, _)] = context.journal.recorded.items()
    assert first.target.limits
    return Journal(recorded={name: str(time.time() - seconds)})


@pytest.mark.parametrize("fault", [Fails(429), Fails(503)])
def test_a_busy_provider_is_waited_for_as_long_as_the_flow_says(fault: Fault) -> None:
    with servers([fault] * 9, [None]) as (running, models):
        for seconds in (1, 50):
            with pytest.raises(RetryableError) as waits:
                decide(models, RoundContext("g", journal=since(models, seconds)))
            assert not waits.value.counts and asked(running)[1] == 0
        context = RoundContext("g", commands=COMMANDS, journal=since(models, 61))
        decide(models, context)
        assert context.told["model"] == "b" and asked(running)[1] == 1


def test_a_busy_provider_that_names_a_longer_time_is_not_waited_for() -> None:
    with servers([Fails(429, headers={"retry-after": "600"})], [None]) as (running, models):
        assert decide(models).told["model"] == "b"
    with servers([Fails(429)], [None]) as (running, models):
        assert decide(models, fallback={"busy_seconds": 0}).told["model"] == "b"
    with servers([Fails(429)], [None]) as (running, models):
        with pytest.raises(RetryableError):
            decide(models, fallback={"busy_seconds": None})
        assert asked(running) == [1, 0]


@pytest.mark.parametrize(
    ("fault", "setting", "by_default"),
    [
        (GONE, "gone", True),
        (Fails(401), "gone", True),
        (NO_KEY, "gone", True),
        (Fails(400, {"error": {"message": "The model `a` has been decommissioned"}}), "gone", True),
        (Cuts(1), "incomplete", True),
        (Ends(2), "incomplete", True),
        (Fails(400), "rejected", False),
        (Fails(413), "rejected", False),
        (REFUSED, "refused", False),
    ],
)
def test_each_kind_of_failure_has_a_setting(fault: Fault, setting: str, by_default: bool) -> None:
    for goes_on in (True, False):
        fallback = None if goes_on == by_default else {setting: goes_on}
        with servers([fault], [None]) as (running, models):
            if goes_on:
                context = decide(models, fallback=fallback)
                assert context.told["model"] == "b" and context.told["fallback"]
            else:
                with pytest.raises((FatalError, RetryableError)):
                    decide(models, fallback=fallback)
            assert asked(running) == [1, int(goes_on)]


def test_a_reply_that_broke_off_is_asked_for_again_before_another_model_is() -> None:
    with servers([Cuts(1)], [None]) as (running, models):
        context = RoundContext("g", commands=COMMANDS, may_retry=lambda error: True)
        with pytest.raises(RetryableError, match="connection broke"):
            decide(models, context)
        assert asked(running) == [1, 0]


def test_if_all_fail_the_round_waits_for_one_that_may_answer_later() -> None:
    now = {"busy_seconds": 0}
    with servers([Fails(503)], [GONE], [Fails(401)]) as (running, models):
        with pytest.raises(RetryableError) as waits:
            decide(models, fallback=now)
        assert not waits.value.counts and asked(running) == [1, 1, 1]
        told = str(waits.value)
        assert told.startswith("model 'a' answers 503") and "'b' answers 404: no such" in told
        assert "'c' answers 401" in told
    with (
        servers([GONE], [Fails(401)]) as (running, models),
        pytest.raises(FatalError, match=r"'b' answers 401.*\(the other models: model 'a' answers"),
    ):
        decide(models)


def test_a_model_whose_key_is_missing_here_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_NOWHERE", raising=False)
    with servers([None], [None]) as (running, models):
        models[0]["api_key"] = "env:HF_NOWHERE"
        context = decide(models)
        assert context.told["model"] == "b" and "HF_NOWHERE" in context.told["fallback"]
        assert asked(running) == [0, 1]


def test_each_model_has_its_own_price() -> None:
    price = {"input": 1.0, "output": 2.0}
    with servers([GONE], [None]) as (_, models):
        models[1]["price"] = price
        context = decide(models, price={"input": 100.0, "output": 100.0})
    assert context.spent["money"] == pytest.approx((100 * 1 + 10 * 2) / 1e6)


def test_the_model_that_a_submission_chose_is_asked_first_if_the_flow_allows_it() -> None:
    with servers([None], [None], [None]) as (running, models):
        allowed = [models[2], models[1]]
        for chosen, counts in (("c", [0, 0, 1]), ("b", [0, 1, 1]), (None, [1, 1, 1])):
            context = RoundContext("g", commands=COMMANDS, model=chosen)
            decide(models[:1], context, allowed_models=allowed)
            assert asked(running) == counts
        with pytest.raises(FatalError, match=r"'d', which its flow does not allow.*; Known: b, c"):
            decide(models[:1], RoundContext("g", model="d"), allowed_models=allowed)
        with pytest.raises(FatalError, match="it allows no choice"):
            decide(models[:1], RoundContext("g", model="a"))


def test_the_chosen_model_has_the_flows_models_behind_it() -> None:
    names = ["openai:a", "openai:b"]
    controller = ModelController(models=names, allowed_models=["openai:b", "openai:c"])
    for chosen, order in (("openai:b", "ba"), ("openai:c", "cab"), (None, "ab")):
        found = candidates_of(controller.settings, RoundContext("g", model=chosen))
        assert [each.name[-1] for each in found] == list(order)
    one = ModelController(allowed_models=["openai:b"])
    endpoint = Endpoint("openai:own", None, "env:HF_KEY")
    found = candidates_of(one.settings, RoundContext("g", model="openai:b", endpoint=endpoint))
    assert [each.name for each in found] == ["openai:b", "openai:own"]
    assert found[0].target.key is None, "the worker's key is for the worker's model"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"models": []}, "models: .*at least 1"),
        ({"models": ["a"], "model": "b"}, "model: it is the only model"),
        ({"models": ["a"], "base_url": "http://x"}, "base_url: it is the only model"),
        ({"models": [{"modle": "a"}]}, r"models\.0\.modle: unknown key; did you mean 'model'"),
        ({"models": [{"base_url": "http://x"}]}, r"models\.0: it requires model"),
        ({"models": [{"model": "a", "api_key": "sk-1"}]}, r"models\.0\.api_key: the key should"),
        ({"models": ["a"], "fallback": {"bussy": 1}}, r"fallback\.bussy: unknown key"),
        ({"models": ["a"], "fallback": {"busy_seconds": -1}}, r"fallback\.busy_seconds: it should"),
        ({"fallback": {"gone": False}}, "fallback: it needs models"),
        ({"allowed_models": ["a", "a"]}, r"allowed_models\.1: the model 'a' is named twice"),
        (
            {"models": [{"model": "openai:a", "provider": {"bas_url": "x"}}]},
            r"models\.0\.provider\.bas_url: .*base_url",
        ),
    ],
)
def test_what_is_wrong_with_several_models_is_told(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidController, match=told) as refused:
        ModelController(**settings)
    assert "sk-1" not in str(refused.value)
