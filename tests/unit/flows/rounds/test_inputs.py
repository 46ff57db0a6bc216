"""A flow's check of the inputs of a submission: each fault by its name, and the expected value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from perdure import Flow, InvalidInput, UnstorableValue
from perdure.flows.core.outcomes import End, Outcome
from perdure.flows.rounds.flow import Role


class Bare(Flow):
    name = "bare"

    @property
    def nodes(self) -> Mapping[str, Role]:
        return {"Only": "controller"}

    def play(self, node: str, context: Any) -> Outcome:
        raise NotImplementedError


class Where(BaseModel):
    path: str = "."


class Searching(Bare):
    name = "searching"

    class Inputs(BaseModel):
        repo: str
        depth: int = 3
        where: Where = Where()


class Taking(Bare):
    name = "taking"

    class Inputs(BaseModel):
        model_config = ConfigDict(extra="allow")
        repo: str


class Choosy(Bare):
    name = "choosy"

    class Inputs(BaseModel):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def _in_order(self) -> Choosy.Inputs:
            if self.low > self.high:
                raise ValueError("low is above high")
            return self


def test_inputs_that_nobody_describes_are_taken_as_given() -> None:
    assert Bare().check_inputs({"any": [1]}) == {"any": [1]}


@pytest.mark.parametrize("flow", [Bare(), Taking()])
def test_inputs_that_would_not_read_back_are_refused_by_their_name(flow: Flow) -> None:
    with pytest.raises(UnstorableValue, match=r"^the inputs at more is nan"):
        flow.check_inputs({"repo": "x", "more": float("nan")})


def test_defaults_are_filled_in_as_plain_json() -> None:
    assert Searching().check_inputs({"repo": "x"}) == {
        "repo": "x",
        "depth": 3,
        "where": {"path": "."},
    }


def test_unknown_inputs_are_named_with_those_that_are_known() -> None:
    with pytest.raises(InvalidInput) as refused:
        Searching().check_inputs({"repo": "x", "b": 1, "a": 1})
    assert (
        str(refused.value) == "flow 'searching' has no input named a, b. "
        "It expects: repo (str), depth (int, optional), where (Where, optional)"
    )


def test_unknown_and_wrong_inputs_are_named_in_one_error() -> None:
    with pytest.raises(InvalidInput) as refused:
        Searching().check_inputs({"b": 1, "depth": "deep"})
    told = str(refused.value)
    assert told.startswith(
        "flow 'searching' has no input named b, and does not accept these inputs: "
        "repo: Field required; depth: Input should be"
    )
    assert told.endswith(". It expects: repo (str), depth (int, optional), where (Where, optional)")


def test_a_model_that_allows_more_takes_more() -> None:
    assert Taking().check_inputs({"repo": "x", "more": 1}) == {"repo": "x", "more": 1}


def test_every_wrong_input_is_named_by_its_place() -> None:
    with pytest.raises(InvalidInput) as refused:
        Searching().check_inputs({"depth": "deep", "where": {"path": 1}})
    told = str(refused.value)
    assert told.startswith(
        "flow 'searching' does not accept these inputs: repo: Field required; depth: Input should be"
    )
    assert "; where.path: Input should be" in told and told.endswith(
        ". It expects: repo (str), depth (int, optional), where (Where, optional)"
    )


def test_a_fault_of_all_inputs_together_is_told_as_theirs() -> None:
    with pytest.raises(InvalidInput) as refused:
        Choosy().check_inputs({"low": 2})
    assert "these inputs: inputs: Value error, low is above high. It expects: low (int" in str(
        refused.value
    )


def test_a_flow_that_says_nothing_ends_at_its_limit_with_all_its_values() -> None:
    values = {"x": 1}
    ended = Bare().exhausted(values)
    assert ended == End(output={"x": 1, "status": "unfinished"}) and ended.output is not values


class Color(StrEnum):
    RED = "red"


class Dated(Bare):
    class Inputs(BaseModel):
        when: datetime
        price: Decimal
        color: Color = Color.RED


def test_values_that_json_does_not_have_are_written_as_pydantic_writes_them() -> None:
    given = {"when": "2026-11-25T10:00:00Z", "price": "1.50"}
    assert Dated().check_inputs(given) == {
        "when": "2026-11-25T10:00:00Z",
        "price": "1.50",
        "color": "red",
    }
