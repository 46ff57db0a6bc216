"""Messages of a round, randomly damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from celery import Celery
from hypothesis import strategies as st

from perdure.worker.app import engine_of, make_app
from perdure.worker.settings import Settings
from tests.corpus.form import ABSENT, Form, good
from tests.corpus.messages import LIST, MESSAGES, carried_by

QUEUE = "unit.controller"


@cache
def app() -> Celery:
    return make_app(Settings(redis_url="redis://127.0.0.1:1/0", prefix="unit"))


@cache
def a_good_one() -> Form:
    return good(engine_of(app()).publisher)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "x" * 3000, 2**53, 10**400, -1, "\ud800", "celery.chord_unlock"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything in it."""
    inner = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Copy a value with a change at that path; ABSENT removes the part."""
    if not path:
        return change(value)
    made = dict(value) if isinstance(value, dict) else list(value)
    new = changed(value[path[0]], path[1:], change)
    if new is ABSENT:
        del made[path[0]]
    else:
        made[path[0]] = new
    return made


@st.composite
def meddled(draw: st.DrawFn) -> bytes:
    """Draw a good message with parts replaced, swapped, dropped or doubled, in the envelope and in
    the body.
    """
    form = a_good_one()
    whole = {**json.loads(form.listed()), "body": form.content}
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(whole)[1:]))
        other = draw(st.sampled_from(places(whole)))
        taken: Any = whole
        for key in other:
            taken = taken[key]
        new = draw(st.one_of(VALUES, st.just(taken), st.just(ABSENT)))
        whole = changed(whole, path, lambda _, new=new: new)
        if not isinstance(whole, dict):
            break
    if isinstance(whole, dict) and "body" in whole:
        body = json.dumps(whole["body"]).encode()
        return Form(body).with_(envelope={**whole, "body": Form(body).listed_body()}).listed()
    return json.dumps(whole).encode()


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """Draw a message of the corpus with bits flipped, cut short, or with a piece of another in its
    middle.
    """
    names = st.sampled_from([name for name in carried_by(LIST) if "megabyte" not in name])
    data = bytearray(
        draw(
            st.just(a_good_one()) | names.map(lambda name: MESSAGES[name].make(a_good_one()))
        ).listed()
    )
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["flip", "cut", "splice", "double"])):
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + draw(st.integers(1, len(data)))]
            case "splice":
                other = MESSAGES[draw(names)].make(a_good_one()).listed()
                data[at:at] = other[: draw(st.integers(0, 200))]
            case "double":
                data[at:at] = data[at : at + 40]
    return bytes(data)
