"""Inputs against an announced schema: the check refuses and accepts the same values as pydantic."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from perdure.worker.domain.fleet import check_announced
from perdure.worker.domain.input_schema import faults_of
from perdure.worker.errors import InvalidInput


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Address(BaseModel):
    street: str
    number: int = 1


class Tree(BaseModel):
    name: str
    below: list[Tree] = []


class Order(BaseModel):
    qty: Annotated[int, Field(ge=1, le=100)] = 1
    price: float = 1.0
    is_gift: bool = False
    note: Annotated[str, Field(max_length=5)] = ""
    maybe: int | None = None
    either: int | list[str] = 1
    tags: Annotated[list[str], Field(min_length=1)] = ["a"]
    color: Color = Color.RED
    size: Size = Size.SMALL
    mode: Literal["fast", "slow"] = "fast"
    to: Address = Address(street="x")
    prices: dict[str, float] = {}
    pair: tuple[int, str] = (1, "a")
    at: datetime | None = None
    tree: Tree = Tree(name="x")


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"qty": 5},
    {"qty": "5"},
    {"qty": 5.0},
    {"qty": True},
    {"price": 1},
    {"price": "1.5"},
    {"is_gift": 1},
    {"is_gift": "yes"},
    {"is_gift": "True"},
    {"maybe": None},
    {"maybe": "7"},
    {"either": ["a"]},
    {"color": "blue"},
    {"size": 2},
    {"mode": "slow"},
    {"to": {"street": "s", "number": "4"}},
    {"prices": {"a": 1}},
    {"pair": [1, "a"]},
    {"at": "2026-01-01T00:00:00Z"},
    {"at": 5},
    {"tree": {"name": "a", "below": [{"name": "b", "below": []}]}},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"qty": "many"}, "qty: expected a whole number, got 'many'"),
    ({"qty": 1.5}, "qty: expected a whole number, got 1.5"),
    ({"qty": None}, "qty: expected a whole number, got None"),
    ({"qty": [1]}, "qty: expected a whole number, got [1]"),
    ({"qty": 0}, "qty: expected at least 1, got 0"),
    ({"qty": 101}, "qty: expected at most 100, got 101"),
    ({"price": "cheap"}, "price: expected a number, got 'cheap'"),
    ({"is_gift": "perhaps"}, "is_gift: expected true or false, got 'perhaps'"),
    ({"is_gift": 2}, "is_gift: expected true or false, got 2"),
    ({"note": 5}, "note: expected a text, got 5"),
    ({"note": "too long"}, "note: expected at most 5 characters, got 8"),
    ({"maybe": "x"}, "maybe: expected a whole number, got 'x'"),
    ({"either": [1]}, "either.0: expected a text, got 1"),
    ({"tags": []}, "tags: expected at least 1 entries, got 0"),
    ({"tags": "a"}, "tags: expected a list, got 'a'"),
    ({"color": "green"}, "color: expected one of 'red', 'blue', got 'green'"),
    ({"mode": "x"}, "mode: expected one of 'fast', 'slow', got 'x'"),
    ({"to": {"number": 4}}, "to.street: is missing"),
    ({"to": "here"}, "to: expected an object, got 'here'"),
    ({"prices": {"a": "x"}}, "prices.a: expected a number, got 'x'"),
    ({"pair": ["x", "a"]}, "pair.0: expected a whole number, got 'x'"),
    ({"tree": {"name": "a", "below": [{"name": 5}]}}, "tree.below.0.name: expected a text, got 5"),
]


@pytest.mark.parametrize("inputs", ACCEPTED, ids=str)
def test_what_pydantic_accepts_is_accepted(inputs: dict[str, Any]) -> None:
    Order.model_validate(inputs)
    assert faults_of(Order.model_json_schema(), inputs) == []


@pytest.mark.parametrize(("inputs", "fault"), REFUSED, ids=str)
def test_what_pydantic_refuses_is_refused_with_its_place(
    inputs: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValidationError):
        Order.model_validate(inputs)
    assert faults_of(Order.model_json_schema(), inputs) == [fault]


def test_a_schema_that_is_not_understood_refuses_nothing() -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    for schema in ({}, {"type": "odd"}, {"$ref": 5}, endless, {"anyOf": 3}, {"enum": 1}):
        assert faults_of(schema, {"a": 1}) == [], schema


def test_the_error_of_announced_inputs_names_all_faults() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_announced("order", Order.model_json_schema(), {"qty": "many", "other": 1})
    assert str(caught.value).startswith(
        "flow 'order' does not accept these inputs: unknown: other; "
        "qty: expected a whole number, got 'many'. It expects: qty, price"
    )
