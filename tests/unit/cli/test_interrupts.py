"""A signal that ends a command is never lost, at any place of the code."""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.worker.cli.interrupts import raise_on

NUMBER = signal.SIGUSR1


@pytest.fixture(autouse=True)
def _handler_before() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    signal.signal(NUMBER, signal.SIG_DFL)
    yield
    signal.signal(NUMBER, before)


class Finalized:
    """Gets the signal in the middle of its finalizer."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def __del__(self) -> None:
        os.kill(os.getpid(), NUMBER)
        self.done.append("finalized")


class Referred:
    """Something that is referred to weakly."""


def use_up(things: list[Any]) -> None:
    """Clear the list so that its things are finalized, and wait for a signal."""
    things.clear()
    signal.pause()


def test_a_signal_raises_at_once() -> None:
    raise_on(NUMBER)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), NUMBER)


def test_a_signal_in_a_finalizer_is_raised_behind_it() -> None:
    raise_on(NUMBER)
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        use_up([Finalized(done)])
    assert done == ["finalized"]


def test_a_signal_in_the_callback_of_a_weak_reference_is_raised_behind_it() -> None:
    raise_on(NUMBER)
    done: list[str] = []

    def finalize() -> None:
        os.kill(os.getpid(), NUMBER)
        done.append("finalized")

    things = [Referred()]
    weakref.finalize(things[0], finalize)
    with pytest.raises(KeyboardInterrupt):
        use_up(things)
    assert done == ["finalized"]


class Named:
    """Gets the signal while a class is made that has it as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        os.kill(os.getpid(), NUMBER)


def test_a_signal_while_a_class_is_made_is_raised_behind_it() -> None:
    raise_on(NUMBER)
    made: list[type] = []

    def make() -> None:
        made.append(type("Owner", (), {"named": Named()}))
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        make()
    assert made


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(NUMBER, signal.SIG_IGN)
    raise_on(NUMBER)
    os.kill(os.getpid(), NUMBER)
    assert signal.getsignal(NUMBER) is signal.SIG_IGN
