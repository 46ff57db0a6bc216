"""Mistakes in a flow or a submission that were accepted, and whose effect came later or never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, command
from perdure.flows.core.budgets import check_budgets, check_commands
from perdure.flows.core.errors import FatalError, InvalidFlow, InvalidInput
from perdure.flows.core.round_journal import MOST_RESULTS, Journal


class Shop(ControllerExecutorFlow):
    """Buys."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish("done")

    @command
    def price(self, context: RoundContext, thing: str) -> str:
        """Tell a price."""
        return "1"


def test_a_rule_for_approvals_that_names_no_argument_of_the_command_is_refused() -> None:
    def flow(argument: str) -> ControllerExecutorFlow:
        rule = {"price": {"approval": {"when": {argument: ["bread*"]}}}}
        return Shop(flow_config={"subflows_config": {"Executor": {"subflows_config": rule}}})

    flow("thing").check_definition()
    with pytest.raises(InvalidFlow, match="did you mean 'thing'"):
        flow("thng").check_definition()


def test_a_flow_with_a_budget_for_a_command_that_it_lacks_is_refused() -> None:
    class Misspelt(Shop):
        budgets: ClassVar[Mapping[str, float]] = {"commands.prise": 2}

    with pytest.raises(InvalidFlow, match=r"did you mean 'commands\.price'"):
        Misspelt().check_definition()


def test_inputs_that_are_no_model_are_refused_with_the_flows_name() -> None:
    class Plain(Shop):
        class Inputs:
            total: int = 1

    with pytest.raises(InvalidFlow, match="Plain: Inputs is"):
        Plain().check_definition()


@pytest.mark.parametrize("limits", [{"commands.pay": 1.5}, {"cycles": 0.5}])
def test_a_limit_of_what_is_counted_is_a_whole_number(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        check_budgets(limits)
    assert check_budgets({"money": 0.5, "commands.pay": 2.0})


def test_a_budget_for_a_command_that_the_flow_lacks_names_the_nearest() -> None:
    check_commands({"money": 1, "commands.pay": 1}, ["pay"], "flow 'shop'")
    with pytest.raises(InvalidInput, match=r"did you mean 'commands\.pay'"):
        check_commands({"commands.pya": 1}, ["pay"], "flow 'shop'")


def test_an_effect_that_could_not_be_recorded_does_not_happen() -> None:
    journal = Journal(recorded={f"e{number}": "1" for number in range(MOST_RESULTS)})
    context = RoundContext("import", journal=journal)
    called: list[str] = []
    assert context.once("e1", lambda: called.append("again")) == 1
    with pytest.raises(FatalError, match="nothing was called"):
        context.once("more", lambda: called.append("more"))
    assert not called
