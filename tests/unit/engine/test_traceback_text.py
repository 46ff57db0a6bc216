"""The text of a traceback: bounded, for any exception."""

from __future__ import annotations

import sys

import pytest

from perdure.flows.core.errors import FatalError
from perdure.worker.engine.traceback_text import MOST_BYTES, traceback_of
from perdure.worker.settings import Settings


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def deep(levels: int) -> None:
    if not levels:
        raise ValueError("\ud800 end")
    deep(levels - 1)


@pytest.mark.parametrize("levels", [0, 1, sys.getrecursionlimit() // 2])
def test_a_traceback_is_bounded_and_storable_however_deep_and_long(levels: int) -> None:
    with pytest.raises(ValueError, match="end") as caught:
        deep(levels)
    told = traceback_of(caught.value, Settings())
    assert (
        "end" in told
        and len(told.encode()) <= MOST_BYTES
        and ("more frames" in told) == (levels > 100)
    )


def test_a_long_message_is_cut() -> None:
    assert (
        0 < len(traceback_of(raised(ValueError("é" * 100_000)), Settings()).encode()) <= MOST_BYTES
    )


def test_an_exception_that_cannot_be_told_is_told_as_such() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert "Mute" in traceback_of(raised(Mute()), Settings())


def test_causes_are_told_behind_what_they_caused_and_a_bare_error_of_the_engine_needs_none() -> (
    None
):
    try:
        try:
            int("x")
        except ValueError as error:
            raise FatalError("the till is closed") from error
    except FatalError as error:
        told = traceback_of(error, Settings())
    assert (
        told.index("the till is closed") < told.index("caused by:") < told.index("invalid literal")
    )
    assert traceback_of(FatalError("never raised in a flow"), Settings()) == ""
