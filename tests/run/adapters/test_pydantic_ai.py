"""Agents of Pydantic AI as workflows: model requests and tool calls are steps, and none is made
twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Agent, CallDeferred, ModelRetry, RunContext
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from perdure import Client, FatalError, InvalidFlow, InvalidInput, RunStatus, Settings
from perdure.flows.adapters.pydantic_ai import PerdureDurability, register_agent, run_agent
from tests.support.example_flows.pydantic_agents import ASKED, FAULTS, Choice, returns, trader
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    effect,
    journal,
    nothing_done,
    play,
    play_one,
)

__all__ = ["nothing_done"]


def pays(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    ASKED["payer"] += 1
    found = returns(messages)
    if found:
        return ModelResponse(parts=[TextPart(f"done: {found[-1]}")])
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": 12})])


payer = Agent(FunctionModel(pays), name="payer", capabilities=[PerdureDurability()])


@payer.tool_plain(requires_approval=True)
def pay(amount: int) -> str:
    effect(f"pay {amount}")
    return f"paid {amount}"


register_agent("pydantic_payer", payer)


def pays_two(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if found := returns(messages):
        return ModelResponse(parts=[TextPart(", ".join(map(str, found)))])
    calls = [ToolCallPart("pay_bill", {"amount": amount}) for amount in (12, 50)]
    return ModelResponse(parts=list(calls))


def check_amount(context: RunContext[None], amount: int) -> None:
    if amount > 60:
        raise ModelRetry("more than 60")


shop = Agent(FunctionModel(pays_two), name="shop", capabilities=[PerdureDurability()])


@shop.tool_plain(requires_approval=True, args_validator=check_amount)
def pay_bill(amount: int) -> str:
    effect(f"pay {amount}")
    return f"paid {amount}"


register_agent("pydantic_shop", shop)


def retries(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    ASKED["boss"] += 1
    prices = [each for each in returns(messages) if each != "too large"]
    if prices:
        return ModelResponse(parts=[TextPart(f"the trader says {prices[-1]}")])
    guess = "cow" if ASKED["boss"] == 1 else "hen"
    return ModelResponse(parts=[ToolCallPart("delegate", {"animal": guess})])


boss = Agent(FunctionModel(retries), name="boss", capabilities=[PerdureDurability()])


@boss.tool_plain(metadata={"idempotent": True})
async def delegate(animal: str) -> str:
    if animal == "cow":
        raise ModelRetry("too large")
    return str((await trader.run(f"buy a {animal}")).output.price)


register_agent("pydantic_boss", boss)


def pays_and_looks(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if found := returns(messages):
        return ModelResponse(parts=[TextPart(", ".join(map(str, found)))])
    calls = [ToolCallPart("pay_now", {"amount": 12}), ToolCallPart("look", {})]
    return ModelResponse(parts=list(calls))


checked = Agent(FunctionModel(pays_and_looks), name="checked", capabilities=[PerdureDurability()])


@checked.tool_plain(requires_approval=True)
def pay_now(amount: int) -> str:
    return effect(f"pay {amount}")


@checked.tool_plain
def look() -> str:
    return effect("look")


@checked.output_validator
def check_output(output: str) -> str:
    ASKED["validator"] += 1
    if ASKED["validator"] == 1:
        raise ModelRetry("say it again")
    return output


register_agent("pydantic_checked", checked)


def calls_the_caller(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("locate", {})])


caller = Agent(FunctionModel(calls_the_caller), name="caller", capabilities=[PerdureDurability()])


@caller.tool_plain
def locate() -> str:
    raise CallDeferred


register_agent("pydantic_caller", caller)


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()
    FAULTS.clear()


STEPS = ["trader.model", "price", "price.2", "trader.model.2", "buy", "trader.model.3"]


def test_each_request_and_each_call_is_a_step(client: Client, driver: Driver) -> None:
    run = client.submit("pydantic_trader", "buy the cheapest animal")
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, {"animal": "hen", "price": 8})
    assert [name for name, _ in journal(client, run)] == STEPS
    assert ASKED["trader"] == 3
    spent = done.details["spent"]
    assert (spent["tokens"], spent["requests"]) == (330, 3)


@pytest.mark.parametrize(
    ("death", "requests"),
    [("request 1", 4), ("price of cow", 3), ("request 2", 4), ("request 3", 4)],
)
def test_a_death_costs_one_request_at_most(
    client: Client, driver: Driver, death: str, requests: int
) -> None:
    DEADLY[death] = 1
    run = client.submit("pydantic_trader", "buy the cheapest animal")
    assert play(driver, run).answer == {"animal": "hen", "price": 8}
    assert ASKED["trader"] == requests and not +DEADLY
    assert [name for name, _ in journal(client, run)] == STEPS


def test_a_tool_that_may_have_been_called_asks_a_person(client: Client, driver: Driver) -> None:
    DEADLY["buy hen"] = 1
    run = client.submit("pydantic_trader", "buy the cheapest animal")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.command == "buy"
    client.resume(run.id, "retry")
    assert play(driver, run).answer == {"animal": "hen", "price": 8}


def test_every_round_on_another_process_makes_no_request_twice(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = client.submit("pydantic_trader", "buy the cheapest animal")
    with driving(settings) as other:
        both = [driver, other]
        while play_one(both[0]):
            both.reverse()
    assert client.get(run.id).answer == {"animal": "hen", "price": 8}
    assert ASKED["trader"] == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("approve", "done: paid 12"),
        ({"edit": {"amount": 3}}, "done: paid 3"),
        ({"refuse": "too much"}, "done: too much"),
    ],
)
def test_a_call_may_need_approval(client: Client, driver: Driver, answer: Any, said: str) -> None:
    run = client.submit("pydantic_payer", "pay the bill")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert (question.kind, question.command, question.args) == ("approval", "pay", {"amount": 12})
    with pytest.raises(InvalidInput):
        client.resume(run.id, "maybe")
    client.resume(run.id, answer)
    assert play(driver, run).answer == said


@pytest.mark.parametrize("edit", [{"amount": "much"}, {"sum": 3}])
def test_arguments_that_do_not_fit_the_tool_are_refused_to_the_person(
    client: Client, driver: Driver, edit: Any
) -> None:
    run = client.submit("pydantic_payer", "pay the bill")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, {"edit": edit})
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert (question.command, question.args) == ("pay", {"amount": 12})
    assert "the last answer was not valid" in question.question and "amount" in question.question
    assert ASKED["payer"] == 1 and not DONE
    client.resume(run.id, {"edit": {"amount": 3}})
    assert play(driver, run).answer == "done: paid 3"
    assert ASKED["payer"] == 2


def test_of_two_approvals_only_the_one_that_does_not_fit_is_asked_again(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = client.submit("pydantic_shop", "pay both")
    for answer in ("approve", *({"edit": {"amount": amount}} for amount in ("much", 70, 7))):
        with driving(settings) as other:  # each answer is read by another process
            assert play(other, run).status is RunStatus.INTERRUPTED
        client.resume(run.id, answer)
    assert play(driver, run).status is RunStatus.COMPLETED
    assert client.get(run.id).answer == "paid 12, paid 7"
    assert DONE["pay 12"] == DONE["pay 7"] == 1


def test_an_agent_may_have_output_validators(client: Client, driver: Driver) -> None:
    run = client.submit("pydantic_checked", "pay")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, "approve")
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, "pay 12 is done, look is done")
    assert [name for name, _ in journal(client, run)] == [
        "checked.model",
        "look",
        "approve",
        "pay_now",
        "checked.model.2",
        "checked.model.3",
    ]
    assert DONE == {"look": 1, "pay 12": 1}


def test_a_tool_that_its_caller_carries_out_is_refused_by_name(
    client: Client, driver: Driver
) -> None:
    run = client.submit("pydantic_caller", "where am I?")
    assert play(driver, run).status is RunStatus.ERRORED
    assert "carried out elsewhere (locate)" in str(client.why(run.id))


@pytest.mark.parametrize("deadly", [["buy hen"], ["buy cow"], ["buy hen", "buy cow"]])
def test_of_two_calls_at_once_none_is_made_again_unasked(
    client: Client, driver: Driver, deadly: list[str]
) -> None:
    DEADLY.update(deadly)
    run = client.submit("pydantic_farmer", "buy both")
    asked = []
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        asked.append(f"buy {question.args['animal']}")
        client.resume(run.id, {"result": "it is here"})
    assert sorted(asked) == sorted(deadly)
    assert DONE["buy hen"] == DONE["buy cow"] == 1
    answers = ["it is here" if f"buy {a}" in deadly else f"bought one {a}" for a in ("hen", "cow")]
    assert client.get(run.id).answer == ", ".join(answers)


def test_the_model_hears_what_a_person_says_of_a_call_in_doubt(
    client: Client, driver: Driver
) -> None:
    DEADLY["buy hen"] = 1
    run = client.submit("pydantic_farmer", "buy both")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.listener == "model"
    client.resume(run.id, {"tell": "the shop is closed"})
    assert play(driver, run).answer == "the shop is closed, bought one cow"
    assert DONE["buy hen"] == 1


def test_an_agent_may_be_a_tool_of_another(client: Client, driver: Driver) -> None:
    run = client.submit("pydantic_boss", "go")
    assert play(driver, run).answer == "the trader says 8"
    assert Counter({"trader": 3, "boss": 3}) == ASKED


def test_a_busy_provider_is_waited_for(client: Client, settings: Settings) -> None:
    FAULTS.extend(ModelHTTPError(503, "function", "overloaded") for _ in range(8))
    with driving(settings.model_copy(update={"max_attempts": 1})) as driver:
        run = client.submit("pydantic_trader", "buy")
        play_one(driver)
        play_one(driver)
        waiting = client.get(run.id)
        assert waiting.phase == "waiting" and "answers 503" in str(client.why(run.id))


def test_outside_of_a_workflow_the_agent_runs_as_ever() -> None:
    assert asyncio.run(trader.run("buy")).output == Choice(animal="hen", price=8)


def test_run_agent_needs_a_workflow() -> None:
    with pytest.raises(FatalError, match="expected to be called in"):
        asyncio.run(run_agent(payer, "pay"))


def test_an_agent_without_steps_is_refused() -> None:
    bare = Agent(TestModel(), name="bare")
    with pytest.raises(InvalidFlow, match=r"capabilities=\[PerdureDurability\(\)\]"):
        register_agent("pydantic_bare", bare)


def test_a_transcript_tells_what_a_model_said_and_called(client: Client, driver: Driver) -> None:
    run = client.submit("pydantic_farmer", "buy both")
    play(driver, run)
    turns = client.transcript(run.id)["history"]
    assert [turn["command"].get("thought") for turn in turns] == [
        'buy_one {"animal":"hen"}; buy_one {"animal":"cow"}',
        None,
        None,
        "bought one hen, bought one cow",
    ]
