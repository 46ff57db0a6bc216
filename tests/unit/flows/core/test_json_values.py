"""Values: a stored value reads back equal, or was refused."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from perdure import UnstorableValue
from perdure.flows.core.json_values import MAX_DEPTH, canonical, storable

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


class Level(Enum):
    HIGH = 3


class Number(IntEnum):
    ONE = 1


WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (WHEN, "2026-01-02T03:04:05Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(minutes=5), "PT5M"),
        (Decimal("12.50"), "12.50"),
        (ID, str(ID)),
        (Path("/srv/data"), "/srv/data"),
        (Level.HIGH, 3),
        (Number.ONE, 1),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({2, 1}), [1, 2]),
        (deque([1, 2]), [1, 2]),
        ({WHEN: 1, Level.HIGH.name: {date(2026, 1, 2): [ID]}}, {"2026-01-02T03:04:05Z": 1, "HIGH": {"2026-01-02": [str(ID)]}}),
        (Data(Model(x=1, inner={"at": WHEN, "sizes": {Size.LARGE}})), {"model": {"x": 1, "inner": {"at": "2026-01-02T03:04:05Z", "sizes": ["large"]}}, "items": []}),
    ],
)  # fmt: skip
def test_what_pydantic_writes_as_json_is_taken_in_its_form(value: Any, plain: Any) -> None:
    stored = storable(value, "it")
    assert stored == plain and json.loads(canonical(stored)) == plain
    assert type(stored) is type(plain)


class Priced(BaseModel):
    price: Decimal
    by_day: dict[int, date]
    secret: SecretStr = SecretStr("hidden")

    @field_serializer("price", when_used="json")
    def _rounded(self, price: Decimal) -> str:
        return f"{price:.2f}"


def test_a_model_is_written_as_it_says_for_json_and_a_secret_stays_one() -> None:
    stored = storable({"it": Priced(price=Decimal("1.5"), by_day={1: date(2026, 1, 2)})}, "it")
    assert stored == {
        "it": {"price": "1.50", "by_day": {"1": "2026-01-02"}, "secret": "**********"}
    }


def test_not_a_number_in_a_model_is_refused_and_does_not_become_null() -> None:
    with pytest.raises(UnstorableValue, match="inner is nan"):
        storable(Model(x=1, inner=float("nan")), "it")
    with pytest.raises(UnstorableValue, match="it at inner is a object"):
        storable(Model(x=1, inner=object()), "it")


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
        (b"x", "it is a bytes"),
        (iter([1]), "iterator"),
        ({1: 2}, "key 1"),
        ({date(2026, 1, 2): 1, "2026-01-02": 2}, "two keys that are '2026-01-02'"),
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
