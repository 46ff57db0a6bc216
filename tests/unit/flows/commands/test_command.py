"""Commands: the promises of their signatures are checked, and nothing else is carried out."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

from perdure import (
    BadReply,
    CommandSpec,
    InvalidFlow,
    RoundContext,
    RoundStopped,
    UnstorableValue,
    command,
)
from perdure.flows.commands.command import commands_of, spec_of

if TYPE_CHECKING:
    from somewhere import Unknown

CONTEXT = RoundContext("g", run_id="r", step=3)


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Found:
    at: Point
    tags: tuple[str, ...]


def run(function: Any, **args: Any) -> Any:
    return spec_of(function).carry_out(args, CONTEXT)


def test_arguments_are_converted_to_what_the_signature_says() -> None:
    def move(point: Point, how: Literal["far", "near"] = "near", *, times: int = 1) -> list[Any]:
        assert isinstance(point, Point)
        return [point.x, how, times]

    assert run(move, point={"x": 1}) == [1, "near", 1]
    assert run(move, point={"x": 1}, how="far", times=2) == [1, "far", 2]
    for wrong in [{"point": {}}, {"point": {"x": 1}, "how": "up"}, {"point": {"x": 1}, "extra": 1}]:
        with pytest.raises(BadReply, match="command 'move'"):
            run(move, **wrong)


def test_the_context_is_given_by_name_and_never_an_argument() -> None:
    def key(word: str, context: Unknown) -> list[Any]:
        return [word, context.idempotency_key, context.command.name]

    assert run(key, word="w")[1].startswith("r:3:")
    with pytest.raises(BadReply, match="context: Extra inputs"):
        run(key, word="w", context=1)
    assert "context" not in spec_of(key).schema()["parameters"]["properties"]


def test_names_that_pydantic_would_refuse_are_fine() -> None:
    def odd(json: int, model_name: str, _private: int = 0, schema: int = 0) -> list[Any]:
        return [json, model_name, _private, schema]

    assert run(odd, json=1, model_name="m", _private=2, schema=3) == [1, "m", 2, 3]
    assert list(spec_of(odd).schema()["parameters"]["properties"]) == [
        "json",
        "model_name",
        "_private",
        "schema",
    ]


def test_defaults_stay_the_functions_own() -> None:
    marker = object()

    def default(thing: Any = marker) -> bool:
        return thing is marker

    assert run(default) is True
    assert spec_of(default).schema()["parameters"]["properties"] == {"thing": {"title": "Thing"}}


def test_keyword_arguments_take_what_comes() -> None:
    def anything(a: int, **rest: Any) -> dict[str, Any]:
        return {"a": a, **rest}

    assert run(anything, a=1, b=[2]) == {"a": 1, "b": [2]}


def test_results_are_plain_json() -> None:
    def find() -> Found:
        return Found(Point(x=1), ("a",))

    assert run(find) == {"at": {"x": 1, "y": 0}, "tags": ["a"]}

    def never() -> object:
        return threading.Lock()

    with pytest.raises(UnstorableValue, match="the result of command 'never'"):
        run(never)


def test_the_schema_tells_a_model_what_to_send() -> None:
    def search(query: str, limit: int = 10) -> list[str]:
        """Search the web.

        At length.
        """
        return []

    schema = spec_of(search).schema()
    assert "title" not in schema["parameters"], "the name of a model that nobody sees"
    assert (schema["name"], schema["description"]) == ("search", "Search the web.\n\nAt length.")
    assert schema["parameters"]["required"] == ["query"]
    assert schema["parameters"]["additionalProperties"] is False
    assert schema["parameters"]["properties"]["limit"] == {
        "default": 10,
        "title": "Limit",
        "type": "integer",
    }


def test_the_decorator_keeps_the_function_and_its_options() -> None:
    @command(idempotent=True, timeout=5)
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert double(2) == 4
    assert spec_of(double) == CommandSpec("double", double, "Double.", idempotent=True, timeout=5)

    @command
    def plain() -> None: ...

    assert (spec_of(plain).idempotent, spec_of(plain).timeout) == (False, None)


class Base:
    @command(idempotent=True)
    def first(self) -> int:
        return 1

    @command
    def second(self) -> int:
        return 2

    def unmarked(self) -> int:
        return 3


class Heir(Base):
    def first(self) -> int:
        return 10

    second = None  # type: ignore[assignment]

    @command
    @staticmethod
    def third() -> int:
        return 30


def test_commands_are_inherited_overridden_and_taken_away() -> None:
    assert list(commands_of(Base())) == ["first", "second"]
    heir = commands_of(Heir())
    assert list(heir) == ["first", "third"]
    assert heir["first"].carry_out({}, CONTEXT) == 10
    assert heir["first"].idempotent
    assert heir["third"].carry_out({}, CONTEXT) == 30


def test_signatures_that_cannot_be_called_by_name_are_refused() -> None:
    def star(*words: str) -> None: ...
    def positional(a: int, /) -> None: ...
    def lock(lock: threading.Event) -> None: ...
    def unresolved(a: Unknown) -> None: ...

    for function, words in [
        (star, "words"),
        (positional, "by name"),
        (lock, "JSON cannot hold"),
        (unresolved, "module level"),
    ]:
        with pytest.raises(InvalidFlow, match=words):
            spec_of(function)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": "soon"},
        {"timeout": float("inf")},
        {"approval": 7},
        {"in_doubt": "maybe"},
        {"idempotent": True, "in_doubt": "ask"},
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match=list(options)[-1]):
        command(**options)


def test_a_coroutine_is_ended_when_its_round_is_cancelled() -> None:
    context = RoundContext("g")
    cleaned = []

    async def wait() -> None:
        context.cancelled.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(RoundStopped):
        spec_of(wait).carry_out({}, context)
    assert cleaned == [True]


def test_a_coroutine_that_cancels_itself_has_failed() -> None:
    async def odd() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled itself"):
        run(odd)
