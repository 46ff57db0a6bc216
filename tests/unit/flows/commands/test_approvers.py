"""A flow's approvers, and the controller's knowledge of who answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, command
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.outcomes import Advance, Interrupt
from perdure.flows.loading.load import read_flow


class Pays(ControllerExecutorFlow):
    """Pays, where another person approves it."""

    approvers = "others"

    def decide(self, context: RoundContext) -> Command | Finish:
        return Command("pay", {"amount": 5})

    @command(approval="always")
    def pay(self, context: RoundContext, amount: int) -> int:
        return amount


def executed(**given: Any) -> Any:
    values = {"command": "pay", "command_args": {"amount": 5}}
    return Pays(name="pays").play(
        "Executor", RoundContext("x", node="Executor", step=1, committed=values, **given)
    )


def test_an_approval_says_that_others_have_to_give_it() -> None:
    asked = executed()
    assert isinstance(asked, Interrupt) and asked.data["approval"]["approvers"] == "others"


def test_the_controller_learns_who_refused_and_who_changed_the_arguments() -> None:
    asked = executed().data
    for answer, expected in (
        ({"refuse": "too dear"}, {"refused": "too dear", "by": "ann"}),
        ({"edit": {"amount": 3}}, {"result": 3, "edited": {"by": "ann", "args": {"amount": 3}}}),
    ):
        outcome = executed(asked=asked, answer=answer, answered=True, answered_by="ann")
        assert isinstance(outcome, Advance) and outcome.turns[0].observation == expected


def test_a_word_that_is_none_of_the_approvers_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="approvers is 'nobody'"):
        Pays(name="pays", approvers="nobody").check_definition()


def test_a_yaml_flow_says_it_too(tmp_path: Path) -> None:
    file = tmp_path / "pays.yaml"
    file.write_text("flow: controller_executor\ncontroller: person\napprovers: others\n")
    assert getattr(read_flow(file)(), "approvers", None) == "others"
