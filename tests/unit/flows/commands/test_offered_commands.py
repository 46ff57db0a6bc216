"""Branches and commands: a flow's offer is found, named, and listed."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import BranchingFlow, CircularFlow, Finish, InvalidFlow, Node, command
from perdure.flows.commands.command import commands_of, spec_of
from perdure.flows.rounds.context import RoundContext


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def silent(a: int) -> int:
    return a


class Called:
    def __call__(self, a: int) -> int:
        return a


class Tools:
    @command
    def bound(self, a: int) -> int:
        """Bound."""
        return a

    @staticmethod
    @command
    def loose(a: int) -> int:
        return a


class Other(BranchingFlow):
    name = "other"
    description = "Others."


def test_a_branching_flow_has_the_name_that_it_was_given_or_its_class_has() -> None:
    given = BranchingFlow([add], name="sums", description="Sums.")
    assert (given.name, given.description) == ("sums", "Sums.")
    assert (BranchingFlow([add]).name, BranchingFlow([add]).description) == ("", "")
    assert (Other([add]).name, Other([add]).description) == ("other", "Others.")


def test_what_a_branch_remembers_is_committed_with_its_end() -> None:
    def noting(context: RoundContext, a: int) -> int:
        context.remember("seen", a)
        return a

    context = RoundContext("g", inputs={"branch": "noting", "branch_input_data": {"a": 3}})
    flow: Any = BranchingFlow([noting])
    end = flow.play(flow.first_node, context)
    assert (end.answer, dict(end.values)) == (3, {"seen": 3})


def test_a_command_is_described_by_its_first_line_or_not_at_all() -> None:
    assert (spec_of(add).name, spec_of(add).description) == ("add", "Add two numbers.")
    assert spec_of(silent).description == ""
    assert spec_of(add).configured({}) == spec_of(add)
    assert spec_of(add).configured({"description": "Sum."}).description == "Sum."


def test_an_object_that_is_called_is_named_for_its_class() -> None:
    assert spec_of(Called()).name == "Called"


def test_a_command_is_found_by_the_name_of_its_method() -> None:
    class Flow(Tools, CircularFlow):
        topology = (Node("A", lambda given, context: Finish(1)),)

        @command
        def own(self, a: int) -> int:
            return a

    assert set(commands_of(Flow(), [])) == {"bound", "loose", "own"}


def test_two_commands_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidFlow):
        BranchingFlow([add, spec_of(silent, "add")]).check_definition()


def test_a_ring_at_its_limit_ends_with_the_answer_that_it_has() -> None:
    class Ring(CircularFlow):
        topology = (Node("A", lambda given, context: Finish(1)),)

    assert Ring().exhausted({"answer": 7, "x": 1}).answer == 7
