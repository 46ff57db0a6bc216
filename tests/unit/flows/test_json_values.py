"""Values: what is stored reads back equal, or was refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure import UnstorableValue
from perdure.flows.json_values import MAX_DEPTH, canonical, storable

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
)


class Colour(StrEnum):
    RED = "red"


class Size(str, Enum):  # noqa: UP042 -- as people still write it
    LARGE = "large"


class Model(BaseModel):
    x: int
    inner: Any = None


@dataclass
class Data:
    model: Model
    items: tuple[int, ...] = ()


@given(JSON)
def test_json_is_taken_as_it_is_and_reads_back_equal(value: Any) -> None:
    assert storable(value, "it") == value
    assert json.loads(canonical(storable(value, "it"))) == value
    assert canonical(value) == json.dumps(
        value, allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )


def test_what_is_taken_is_a_copy() -> None:
    given: dict[str, Any] = {"a": [{}]}
    plain = storable(given, "it")
    given["a"][0]["b"] = 1
    given["c"] = 2
    assert plain == {"a": [{}]}


def test_models_dataclasses_tuples_and_enums_become_plain() -> None:
    plain = storable({"d": Data(Model(x=1, inner=(2,)), (3,)), "c": Colour.RED}, "it")
    assert plain == {"d": {"model": {"x": 1, "inner": [2]}, "items": [3]}, "c": "red"}
    assert type(plain["c"]) is str
    assert storable({Size.LARGE: Size.LARGE}, "it") == {"large": "large"}


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def test_nesting_has_a_limit() -> None:
    assert storable(nested(MAX_DEPTH), "it") == nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 300, 100_000):
        with pytest.raises(UnstorableValue, match=f"more than {MAX_DEPTH} levels"):
            storable(nested(depth), "it")
    with pytest.raises(UnstorableValue):
        storable(circle(), "it")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, float("nan")]}, r"it at a\[1\] is nan"),
        (float("inf"), "it is inf"),
        ({"a": {1}}, "it at a is a set"),
        (b"x", "it is a bytes"),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
        ({1: 2}, "key 1"),
        ("\ud800", "lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        pytest.param(10**5000, "it cannot be stored", id="huge"),
        (object(), "object"),
        (Model, "ModelMetaclass"),
        (Data, "type"),
    ],
)
def test_what_would_not_read_back_is_refused_naming_its_place(value: Any, words: str) -> None:
    with pytest.raises(UnstorableValue, match=words) as caught:
        storable(value, "it")
    str(caught.value).encode()


def test_the_canonical_text_does_not_depend_on_order() -> None:
    assert (
        canonical({"b": 1, "a": [1, "é"]})
        == canonical({"a": [1, "é"], "b": 1})
        == '{"a":[1,"é"],"b":1}'
    )


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), object(), {"a": {1}}, nested(100_000), circle()]
)
def test_the_canonical_text_is_refused_as_the_library_refuses_it(value: Any) -> None:
    with pytest.raises((ValueError, TypeError, RecursionError)) as expected:
        json.dumps(value, allow_nan=False)
    with pytest.raises(expected.type) as caught:
        canonical(value)
    assert str(caught.value) == str(expected.value)
