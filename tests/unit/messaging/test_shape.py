"""A message of a known shape is read as the guard validates it, under any change; a message without
a shape takes the long way.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perdure.worker.messaging.fast import shape
from perdure.worker.messaging.fast.shape import MOST, Shape, Shapes
from perdure.worker.messaging.message import (
    MAX_BYTES,
    MAX_HEADER,
    TRACING,
    InvalidMessage,
    validate,
)
from tests.corpus.form import Form
from tests.corpus.messages import LIST, carried_by
from tests.support.broken_messages import QUEUE, a_good_one, bent, meddled

UUID = "6828888e-de7e-437c-ab71-22b6a5e853b4"
#: A message that does not tell which of its blanks is which.
ALL_THE_SAME = (
    a_good_one()
    .with_headers(**dict.fromkeys(("id", "root_id", "argsrepr", "origin"), "x"))
    .with_properties(**dict.fromkeys(("correlation_id", "reply_to", "delivery_tag"), "x"))
)


def text_of(form: Form) -> str:
    return form.listed().decode("utf-8", "surrogateescape")


def in_a_round() -> Form:
    return a_good_one().with_headers(parent_id=UUID)


def traced() -> Form:
    return a_good_one().with_headers(
        **dict.fromkeys(TRACING, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    )


def body(*args: Any) -> bytes:
    return json.dumps(
        [args, {}, dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))]
    ).encode()


def knowing() -> Shapes:
    """Make shapes that have seen the messages of workers."""
    made = Shapes()
    for form in (a_good_one(), in_a_round(), traced()):
        made.validate(text_of(form), QUEUE)
    return made


def outcome(by: Any, text: str) -> tuple[Any, Any]:
    """Return the resulting message, None if it is refused; and the content of its body if that is
    part of it.
    """
    try:
        message = by(text, QUEUE)
    except InvalidMessage:
        return None, None
    return message, message.pop("content", None)


def same_either_way(text: str, shapes: Shapes) -> None:
    (short, content), (long, _) = outcome(shapes.validate, text), outcome(validate, text)
    assert short == long
    with suppress(UnicodeEncodeError):
        assert outcome(shapes.validate, text.encode())[0] == long
    if content is not None:
        assert content == json.loads(base64.b64decode(long["body"]))
        assert [type(part) for part in content[0]] == [str, int, int]


@pytest.mark.parametrize("form", [a_good_one, in_a_round, traced])
def test_of_what_workers_send_only_the_first_is_looked_at_at_length(
    form: Callable[[], Form], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = knowing()
    monkeypatch.delattr(shape, "validate")
    message = shapes.validate(
        text_of(
            form().with_headers(id="another", argsrepr="('b', 0, 0)").with_(body=body("b", 0, 0))
        ),
        QUEUE,
    )
    assert message["headers"]["id"] == "another" and message["content"][0] == ["b", 0, 0]


def test_bytes_are_as_good_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefetched message is text, BRPOP's is bytes."""
    shapes = Shapes()
    shapes.validate(text_of(a_good_one()).encode(), QUEUE)
    monkeypatch.delattr(shape, "validate")
    assert shapes.validate(text_of(a_good_one()), QUEUE) == shapes.validate(
        text_of(a_good_one()).encode(), QUEUE
    )


def test_what_workers_send_is_read_as_it_is_sifted() -> None:
    shapes = knowing()
    for form in (a_good_one(), in_a_round(), traced()):
        for args in (
            ("a", 0, 0),
            ("order:4711@shop_7.eu-west", 12, 10**14),
            ("x" * 200, 2**53 - 1, 2**53 - 2),
        ):
            same_either_way(
                text_of(form.with_headers(argsrepr=str(args)).with_(body=body(*args))), shapes
            )


def test_shapes_that_take_turns_all_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = knowing()
    monkeypatch.delattr(shape, "validate")
    for form in (a_good_one(), in_a_round(), traced()) * 3:
        assert "content" in shapes.validate(text_of(form), QUEUE)


def test_nothing_of_one_message_is_in_another() -> None:
    """Celery writes into the message that it is given."""
    shapes, text = knowing(), text_of(in_a_round())
    first = shapes.validate(text, QUEUE)
    assert "content" in first
    for part in (first["headers"], first["properties"], first["properties"]["delivery_info"]):
        part.clear()
    first["content"][0].clear()
    first["content"][2].clear()
    same_either_way(text, shapes)
    limits = shapes.validate(text, QUEUE)["headers"]["timelimit"]
    limits.clear()
    same_either_way(text, shapes)


def test_each_message_of_the_corpus_is_judged_the_same() -> None:
    shapes = knowing()
    for entry in carried_by(LIST).values():
        same_either_way(text_of(entry.make(a_good_one())), shapes)
        same_either_way(text_of(entry.make(in_a_round())), shapes)


def test_whatever_stands_in_a_blank_is_judged_the_same() -> None:
    shapes = knowing()
    form = traced().with_headers(parent_id=UUID)
    shapes.validate(text_of(form), QUEUE)
    texts = (
        "",
        "x" * 200,
        "x" * 201,
        "x" * MAX_HEADER,
        "x" * (MAX_HEADER + 1),
        'a"b',
        "a\\b",
        "\x00",
        "ä",
        "\x7f",
    )
    for name, value in itertools.product(
        ("id", "root_id", "parent_id", "argsrepr", "origin", *TRACING), (*texts, None, 1, ["x"])
    ):
        text = text_of(form.with_headers(**{name: value}))
        same_either_way(text, shapes)
        same_either_way(json.dumps(json.loads(text), ensure_ascii=False), shapes)


def test_whatever_the_body_ends_with_is_judged_the_same() -> None:
    shapes = knowing()
    for run_id, ends in itertools.product(
        ("a", "ab", "abc"), ("", "=", "==", "A", "A=", "A==", "-_==", " ")
    ):
        bare = base64.b64encode(body(run_id, 0, 0)).decode().rstrip("=")
        same_either_way(text_of(a_good_one().with_(body=bare + ends)), shapes)


def test_the_sum_of_its_blanks_may_be_too_long() -> None:
    shapes = knowing()
    form = a_good_one().with_headers(theirs="x" * (MAX_BYTES - 1500))
    shapes.validate(text_of(form), QUEUE)
    assert "content" in shapes.validate(text_of(form), QUEUE)
    same_either_way(text_of(form.with_headers(argsrepr="x" * 1000)), shapes)


@pytest.mark.parametrize(
    "text",
    [
        text_of(a_good_one().with_headers(theirs="<id>")),  # a blank's mark
        text_of(a_good_one().with_headers(theirs=json.loads(text_of(a_good_one()))["body"])),
        text_of(a_good_one())[:-1] + " }",
        text_of(a_good_one()).replace('"headers"', '"headers": {}, "headers"'),
        json.dumps(dict(reversed(json.loads(text_of(a_good_one())).items()))),
        json.dumps(
            {
                name: json.loads(text_of(ALL_THE_SAME))[name]
                for name in ("body", "properties", "headers", "content-type", "content-encoding")
            }
        ),
    ],
)
def test_what_has_no_plain_shape_takes_the_long_way(text: str) -> None:
    with pytest.raises((ValueError, re.error)):
        Shape(text, QUEUE)
    shapes = Shapes()
    for _ in range(3):
        same_either_way(text, shapes)


def test_a_queue_of_ever_new_shapes_is_not_learned_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[str] = []
    monkeypatch.setattr(
        shape, "Shape", lambda text, queue: (learned.append(text), Shape(text, queue))[1]
    )
    shapes = Shapes()
    for number in range(3 * MOST):
        same_either_way(text_of(a_good_one().with_headers(theirs=number)), shapes)
    assert len(learned) == MOST


def test_it_goes_back_to_the_queue_it_came_on() -> None:
    shapes, text = Shapes(), text_of(a_good_one())
    for queue in ("one", "other", "one", "other"):
        assert shapes.validate(text, queue)["properties"]["delivery_info"]["routing_key"] == queue


@given(st.one_of(meddled(), bent()))
@hypothesis_settings(max_examples=60)
def test_meddled_messages_are_judged_the_same(data: bytes) -> None:
    same_either_way(data.decode("utf-8", "surrogateescape"), knowing())


@pytest.mark.slow
@pytest.mark.timeout(300)
@given(st.one_of(meddled(), bent()))
@hypothesis_settings(max_examples=3000)
def test_thousands_of_messages_are_judged_the_same(data: bytes) -> None:
    same_either_way(data.decode("utf-8", "surrogateescape"), knowing())
