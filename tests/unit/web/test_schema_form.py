"""The form of a flow's inputs: its questions, and the filled-in values on the way back."""

from __future__ import annotations

from enum import Enum
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    name: str
    floor: int = 0


class Order(BaseModel):
    what: str
    how_many: int = Field(1, ge=1, le=10, description="How many of them.")
    weight: float | None = None
    colour: Colour = Colour.RED
    size: Literal["small", 2] = "small"
    gift: bool = False
    fragile: bool | None = None
    tags: list[str] = []
    note: Annotated[str, Field(max_length=5000)] = ""
    place: Place | None = None
    numbers: list[int] = []
    where: str | list[str] = "here"
    anything: Any = None


@pytest.fixture(scope="module")
def form() -> ModuleType:
    """The module under test: it imports the web app, which most tests of this tier do not need."""
    from perdure.worker.web.dashboard import schema_form

    return schema_form


@pytest.fixture(scope="module")
def fields(form: ModuleType) -> Any:
    """The fields of the form of an order."""
    return form.fields_of(Order.model_json_schema())


def by_name(fields: Any, name: str) -> Any:
    return next(field for field in fields if field.name == name)


def test_each_kind_of_input_is_asked_in_its_own_way(fields: Any) -> None:
    kinds = {field.name: field.kind for field in fields}
    assert kinds == {
        "what": "text", "how_many": "integer", "weight": "number", "colour": "choice", "size": "choice", "gift": "flag",
        "fragile": "choice", "tags": "lines", "note": "long", "place": "json", "numbers": "json", "where": "line_or_lines",
        "anything": "json",
    }  # fmt: skip


def test_what_a_schema_says_of_a_field_is_shown_with_it(fields: Any) -> None:
    many = by_name(fields, "how_many")
    assert (many.description, many.minimum, many.maximum, many.filled, many.required) == (
        "How many of them.",
        1,
        10,
        "1",
        False,
    )
    assert by_name(fields, "what").required and by_name(fields, "colour").choices == (
        ('"red"', "red"),
        ('"blue"', "blue"),
    )
    assert by_name(fields, "colour").filled == '"red"' and by_name(fields, "size").choices == (
        ('"small"', "small"),
        ("2", "2"),
    )


def test_what_is_left_empty_is_left_out_so_that_the_flow_s_default_stands(
    form: ModuleType, fields: Any
) -> None:
    assert form.values_of(fields, {"what": "tea"}) == ({"what": "tea", "gift": False}, {})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("what", "  ", "a value"),
        ("how_many", "many", "a whole number, got 'many'"),
        ("how_many", "1.5", "a whole number"),
        ("how_many", "true", "a whole number"),
        ("how_many", "0", "at least 1"),
        ("how_many", "11", "at most 10"),
        ("weight", "NaN", "a number, got 'NaN'"),
        ("weight", "1e999", "a number, got '1e999'"),
        ("colour", '"green"', "one of red, blue"),
        ("place", "{", "JSON"),
    ],
)
def test_what_does_not_fit_is_told_at_its_field(
    form: ModuleType, fields: Any, name: str, text: str, expected: str
) -> None:
    values, faults = form.values_of(fields, {"what": "tea", name: text})
    assert list(faults) == [name] and expected in faults[name] and name not in values


def test_a_flow_without_a_schema_is_asked_for_everything_as_one_object(form: ModuleType) -> None:
    fields, name = form.fields_of(None), form.OTHERS
    assert [field.name for field in fields] == [name]
    assert form.values_of(fields, {name: '{"a": [1]}'}) == ({"a": [1]}, {})
    assert "a JSON object" in form.values_of(fields, {name: "[1]"})[1][name]
    assert form.values_of(form.fields_of({"properties": {}}), {}) == ({}, {})


def test_inputs_that_the_schema_does_not_name_have_a_field_of_their_own(form: ModuleType) -> None:
    schema = {"properties": {"inputs": {}}, "additionalProperties": {"type": "integer"}}
    fields, values = form.fields_of(schema), {"inputs": {"a": 1}, "b": 2}
    assert [field.name for field in fields] == ["inputs", form.OTHERS]
    assert form.values_of(fields, form.texts_of(fields, values)) == (values, {})
    (only,) = form.fields_of({"properties": {"inputs": {}}})
    values = {"inputs": {"a": 1}}
    assert form.values_of([only], form.texts_of([only], values)) == (values, {})
    fields, values = form.fields_of(None), {"inputs": 1, form.OTHERS: {"a": 1}}
    assert form.values_of(fields, form.texts_of(fields, values)) == (values, {})


def test_an_input_of_any_name_has_its_own_field(form: ModuleType) -> None:
    fields = form.fields_of(
        {"properties": {"*": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    )
    assert len({field.name for field in fields}) == 2
    values = {"*": "a", "b": 2}
    assert form.values_of(fields, form.texts_of(fields, values)) == (values, {})


@pytest.mark.parametrize("value", [7, True, {"a": 1}, [1, None], [["a"]], [], ""])
@pytest.mark.parametrize("name", ["tags", "where", "what", "note", "how_many", "colour", "gift"])
def test_an_input_of_an_older_schema_is_written(
    form: ModuleType, fields: Any, name: str, value: Any
) -> None:
    assert isinstance(form.texts_of(fields, {name: value})[name], str)


def test_a_reference_to_itself_is_asked_as_json(form: ModuleType) -> None:
    schema = {
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"$ref": "#/$defs/Tree"}},
    }
    assert form.fields_of(schema)[0].kind == "json"


texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1
).filter(lambda text: text.strip() == text)
texts = texts.filter(lambda text: len(text.splitlines()) == 1)
lines = st.lists(texts, min_size=1, max_size=4)
#: The possible items of a list that another program has submitted.
items = texts | st.text(min_size=1) | st.sampled_from(["a\nb", " a", '["a"]', '"a"', "a\u2028b"])


@given(
    st.fixed_dictionaries(
        {"what": texts, "gift": st.booleans()},
        optional={
            "how_many": st.integers(1, 10),
            "weight": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
            "colour": st.sampled_from(["red", "blue"]),
            "size": st.sampled_from(["small", 2]),
            "fragile": st.booleans(),
            "tags": st.lists(items, min_size=1, max_size=4),
            "where": items | st.lists(items, min_size=2, max_size=4),
            "note": lines.map("\n".join),
            "place": st.fixed_dictionaries({"name": texts, "floor": st.integers()}),
            "numbers": st.lists(st.integers(), min_size=1),
        },
    )
)
def test_what_is_filled_in_comes_back_as_it_was(
    form: ModuleType, fields: Any, values: dict[str, Any]
) -> None:
    texts = form.texts_of(fields, values)
    found, faults = form.values_of(fields, {name: text for name, text in texts.items() if text})
    assert (found, faults) == (values, {})
    assert Order.model_validate(found) == Order.model_validate(values)
