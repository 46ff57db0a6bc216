"""Typed answers: in the schema of ``finish``, checked when the controller finishes, and never
changed in between.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, computed_field
from typing_extensions import TypedDict

from perdure import (
    BadReply,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    InvalidAnswer,
    InvalidFlow,
    RoundContext,
    command,
)
from perdure.flows.commands.controller import Controller
from perdure.flows.core.answer_types import AnswerType, takes_text
from tests.support.flow_player import play_through


class Reason(enum.Enum):
    LATE = "late"
    BROKEN = "broken"


class Item(BaseModel):
    name: str
    parts: list[Item] = []


class Refund(BaseModel):
    """The money that a customer gets back."""

    amount: Decimal
    on: date
    reason: Reason
    item: Item | None = None

    @computed_field
    def cents(self) -> int:
        return int(self.amount * 100)


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    city: str


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    on: date


REFUND = Refund(amount=Decimal("12.50"), on=date(2026, 1, 2), reason=Reason.LATE)
PLAIN = {"amount": "12.50", "on": "2026-01-02", "reason": "late", "item": None}


@pytest.mark.parametrize(
    ("kind", "answer", "plain", "typed"),
    [
        (Refund, REFUND, PLAIN, REFUND),
        (Refund, PLAIN, PLAIN, REFUND),
        (Strict, {"on": "2026-01-02"}, {"on": "2026-01-02"}, Strict(on=date(2026, 1, 2))),
        (Strict, Strict(on=date(2026, 1, 2)), {"on": "2026-01-02"}, Strict(on=date(2026, 1, 2))),
        (Point, Point(1), {"x": 1, "y": 0}, Point(1)),
        (Point, {"x": 1}, {"x": 1, "y": 0}, Point(1)),
        (Place, {"city": "Oslo"}, {"city": "Oslo"}, {"city": "Oslo"}),
        (list[date], [date(2026, 1, 2)], ["2026-01-02"], [date(2026, 1, 2)]),
        (set[int], {3, 1}, [1, 3], {1, 3}),
        (str, "done", "done", "done"),
        (int | None, None, None, None),
        (Any, {"any": [1]}, {"any": [1]}, {"any": [1]}),
    ],
)
def test_an_answer_is_stored_as_json_and_reads_back_as_its_type(
    kind: Any, answer: Any, plain: Any, typed: Any
) -> None:
    answers = AnswerType(kind, "it")
    stored = answers.check(answer, "")
    assert (sorted(stored) if isinstance(stored, list) else stored) == plain
    assert answers.read(stored, "") == typed


@pytest.mark.parametrize(
    ("kind", "answer", "words"),
    [
        (Refund, {"amount": "x", "on": "2026-01-02", "reason": "late"}, r"amount: .*decimal"),
        (Refund, {"amount": 1}, r"on: Field required; reason: Field required"),
        (Refund, "a text", r"It is: 'a text'"),
        (int, "five", r"does not fit int"),
        (Strict, {"on": "2026-01-02", "more": 1}, r"more: Extra inputs"),
    ],
)
def test_an_answer_of_another_type_is_refused_by_its_place(
    kind: Any, answer: Any, words: str
) -> None:
    with pytest.raises(InvalidAnswer, match=words):
        AnswerType(kind, "it").check(answer, "run x: ")


class Agent(Controller):
    """A controller that reads errors, as a model does: it replies with the values of a test, one
    after the other.
    """

    reads_errors = True

    def __init__(self, *says: Any) -> None:
        self.says = says

    def decide(self, context: RoundContext) -> Any:
        return self.says[len(context.history)]


class Refunding(ControllerExecutorFlow):
    name = "refunding"
    Answer = Refund

    @command(idempotent=True)
    def look(self) -> str:
        """Look."""
        return "seen"

    @command(idempotent=True)
    def give_up(self) -> Finish:
        """Give up."""
        return Finish(REFUND)

    @command(idempotent=True)
    def lie(self) -> Finish:
        """Lie."""
        return Finish({"amount": 1})


def refunding(*says: Any) -> Refunding:
    return Refunding(controller=Agent(*says))


def finish(answer: Any) -> Command:
    return Command("finish", {"answer": answer})


def test_finish_has_the_schema_of_the_answer_with_its_definitions_at_the_root() -> None:
    parameters = refunding().schemas()[-1]["parameters"]
    answer = parameters["properties"]["answer"]
    assert answer["description"] == "The money that a customer gets back."
    assert answer["required"] == ["amount", "on", "reason"]
    assert answer["properties"]["reason"] == {"$ref": "#/$defs/Reason"}
    assert set(parameters["$defs"]) == {"Item", "Reason"} and "$defs" not in answer
    assert parameters["required"] == ["answer"] and parameters["additionalProperties"] is False


def test_without_a_type_finish_takes_any_answer() -> None:
    class Untyped(Refunding):
        Answer = None

    parameters = Untyped(controller=Agent()).schemas()[-1]["parameters"]
    assert parameters["properties"] == {"answer": {}} and "$defs" not in parameters


@pytest.mark.parametrize("says", [finish(PLAIN), Finish(REFUND), finish(REFUND), [finish(PLAIN)]])
def test_a_right_answer_ends_the_run_with_json(says: Any) -> None:
    played = play_through(lambda: refunding(says))
    assert played.end is not None and played.end.answer == played.end.output["answer"] == PLAIN


@pytest.mark.parametrize("wrong", [finish({"amount": 1}), Finish("done"), [finish({"amount": 1})]])
def test_a_wrong_answer_of_a_model_is_answered_with_the_error_and_corrected(wrong: Any) -> None:
    played = play_through(lambda: refunding(Command("look"), wrong, finish(PLAIN)))
    assert played.end is not None and played.end.answer == PLAIN
    error = played.observations[1]["error"]
    assert error.startswith("BadReply: command 'finish': the answer does not fit Refund: ")


def test_a_finish_behind_other_calls_of_a_reply_is_checked_with_them() -> None:
    calls = [Command("look"), finish({"amount": 1})]
    played = play_through(lambda: refunding(calls, "unused", finish(PLAIN)))
    assert played.end is not None and played.end.answer == PLAIN
    assert [
        observation if isinstance(observation, str) else "error"
        for observation in played.observations
    ] == ["seen", "error"]


def test_a_model_that_insists_on_a_wrong_answer_ends_errored() -> None:
    with pytest.raises(FatalError, match=r"3 bad replies .* does not fit Refund"):
        play_through(lambda: refunding(*[finish(1)] * 3))


def test_a_command_that_finishes_gives_the_answer_of_the_type_too() -> None:
    played = play_through(lambda: refunding(Command("give_up")))
    assert played.end is not None and played.end.answer == PLAIN
    with pytest.raises(InvalidAnswer, match="flow 'refunding': the answer does not fit Refund"):
        play_through(lambda: refunding(Command("lie")))


class Coded(Refunding):
    answer: Any = None

    def decide(self, context: RoundContext) -> Any:
        return Finish({"amount": 1})


def test_code_with_a_wrong_answer_is_an_error_that_says_so() -> None:
    with pytest.raises(FatalError, match="does not fit Refund: on: Field required"):
        play_through(Coded)


def test_a_type_that_pydantic_cannot_read_is_refused_with_the_definition() -> None:
    class Opaque:
        pass

    class Wrong(Refunding):
        Answer = Opaque

    with pytest.raises(InvalidFlow, match="Answer is Opaque, which cannot be the type"):
        Wrong(controller=Agent())


def test_the_unfinished_answer_is_not_of_the_type_and_is_not_checked() -> None:
    end = refunding().exhausted({})
    assert isinstance(end.answer, str) and end.output["status"] == "unfinished"


@pytest.mark.parametrize(
    ("kind", "takes"),
    [
        (str, True), (str | None, True), (Literal["a", "b"], True), (Reason, True), (Any, True),
        (int, False), (Refund, False), (list[str], False), (Item, False), (str | int, True),
    ],
)  # fmt: skip
def test_a_text_alone_can_be_the_answer_only_if_the_type_has_texts(kind: Any, takes: bool) -> None:
    schema = AnswerType(kind, "it").schema
    assert takes_text(schema, schema.get("$defs", {})) is takes


def test_the_error_of_a_wrong_answer_is_one_of_a_reply() -> None:
    flow = refunding(finish(1))
    with pytest.raises(BadReply, match="does not fit Refund"):
        flow.choose_command({}, RoundContext("goal"))
