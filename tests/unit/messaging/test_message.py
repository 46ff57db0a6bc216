"""The guard's verdict on every message of the corpus, and on random changes of them: refused in a
few words, or safe for Celery.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from celery.worker.request import Request
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kombu import Connection

from perdure.worker.messaging.message import (
    HEADERS,
    MAX_BYTES,
    TRACING,
    InvalidMessage,
    judge,
    round_of,
    validate,
)
from tests.corpus.messages import AMQP, LIST, MESSAGES, carried_by
from tests.support.broken_messages import QUEUE, VALUES, a_good_one, app, bent, meddled

#: The longest reason, in characters: a thousand dead letters with it are kept.
FEW = 300


def reason(judgement: Callable[[], Any]) -> str | None:
    """Return why it was refused; None if it passed."""
    try:
        judgement()
    except InvalidMessage as error:
        return str(error)
    return None


def test_each_message_of_a_list_is_refused_for_its_reason() -> None:
    told = {
        name: reason(lambda entry=entry: validate(entry.make(a_good_one()).listed(), QUEUE))  # type: ignore[misc]
        for name, entry in carried_by(LIST).items()
    }
    assert {name: why for name, why in told.items() if not as_expected(name, why)} == {}


def test_each_message_of_a_table_is_refused_for_its_reason() -> None:
    told = {}
    for name, entry in carried_by(AMQP).items():
        if entry.why != "":  # a table that is never read
            message = entry.make(a_good_one()).published()
            parts = [
                message.properties.get(part)
                for part in ("content_type", "content_encoding", "application_headers")
            ]
            text = message.body.decode("utf-8", "surrogateescape")
            told[name] = reason(lambda parts=parts, text=text: judge(*parts, text))  # type: ignore[misc]
    assert {name: why for name, why in told.items() if not as_expected(name, why)} == {}


def as_expected(name: str, found: str | None) -> bool:
    why = MESSAGES[name].why
    return (
        found is None
        if why is None
        else found is not None and re.search(why, found) is not None and len(found) <= FEW
    )


def acceptable_to_celery(passed: dict[str, Any]) -> None:
    """Check that a passed message is a round's message, and that Celery makes an equal request of
    it.
    """
    message = json.loads(json.dumps(passed))
    assert set(message) == {"body", "content-type", "content-encoding", "headers", "properties"}
    assert set(message["headers"]) <= {*HEADERS, *TRACING, "timelimit"}
    assert message["properties"]["delivery_info"] == {"exchange": "", "routing_key": QUEUE}
    channel = Connection("memory://").default_channel
    received = channel.Message(message, channel=channel)
    task = app().tasks[message["headers"]["task"]]
    request = Request(received, app=app(), task=task, hostname="unit", eventer=None)
    assert (*request.args,) == round_of(json.dumps(received.payload)) and request.kwargs == {}
    assert request.eta is None and request.expires is None and not request.time_limits[0]
    assert str(request) and request.info()


def test_what_is_let_through_is_what_celery_expects() -> None:
    for entry in carried_by(LIST).values():
        if entry.why is None:
            acceptable_to_celery(validate(entry.make(a_good_one()).listed(), QUEUE))


def judged(data: str | bytes) -> None:
    """Check that a message is refused in a few words, or safe; no other error is raised."""
    passed = None
    try:
        passed = validate(data, QUEUE)
    except InvalidMessage as error:
        why = str(error)
    if passed is None:
        assert 0 < len(why) <= FEW
    else:
        acceptable_to_celery(passed)


@given(meddled())
@hypothesis_settings(max_examples=40)
def test_meddled_messages_are_refused_or_safe(data: bytes) -> None:
    judged(data)


@given(bent())
@hypothesis_settings(max_examples=40)
def test_bent_messages_are_refused_or_safe(data: bytes) -> None:
    judged(data)


@pytest.mark.slow
@pytest.mark.timeout(300)
@given(
    st.one_of(
        meddled(),
        bent(),
        st.binary(max_size=200),
        VALUES.map(lambda value: json.dumps(value).encode()),
    )
)
@hypothesis_settings(max_examples=2000)
@example(b"")
def test_thousands_of_messages_are_refused_or_safe(data: bytes) -> None:
    judged(data)


ODD = VALUES | st.binary(max_size=8) | st.decimals() | st.datetimes() | st.just(b"\xff" * 5000)


@given(
    ODD,
    ODD,
    ODD | st.dictionaries(st.sampled_from([*HEADERS, *TRACING, "timelimit", "stamps", "x"]), ODD),
    ODD,
)
@hypothesis_settings(max_examples=40)
def test_parts_of_any_kind_are_refused_in_a_few_words(
    content_type: Any, content_encoding: Any, headers: Any, body: Any
) -> None:
    """RabbitMQ's tables hold bytes, decimals and times; a body may be bytes."""
    form = a_good_one()
    for parts in (
        (content_type, "utf-8", form.headers, form.body.decode()),
        ("application/json", content_encoding, form.headers, form.body.decode()),
        ("application/json", "utf-8", headers, form.body.decode()),
        (
            "application/json",
            "utf-8",
            {**form.headers, **headers} if isinstance(headers, dict) else headers,
            form.body.decode(),
        ),
        ("application/json", "utf-8", form.headers, body),
    ):
        found = reason(lambda parts=parts: judge(*parts))
        assert found is None or 0 < len(found) <= FEW


def test_a_message_of_the_greatest_length_is_still_read() -> None:
    listed = a_good_one().listed()
    assert reason(lambda: validate(listed + b" " * (MAX_BYTES - len(listed)), QUEUE)) is None
    assert "at most" in str(
        reason(lambda: validate(listed + b" " * (MAX_BYTES + 1 - len(listed)), QUEUE))
    )
