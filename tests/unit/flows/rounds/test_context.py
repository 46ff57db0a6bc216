"""RoundContext: the same for its readers, made in any way."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError, dataclass, fields, replace

import pytest

from perdure.flows.core.cancellation import Signals
from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.files import File
from perdure.flows.core.outcomes import Command
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.context import RoundContext, altered, made


@dataclass(frozen=True)
class Watched(RoundContext):
    watcher: str = ""


@pytest.mark.parametrize("kind", [RoundContext, Watched])
def test_an_altered_context_is_a_replaced_one(kind: type[RoundContext]) -> None:
    context = kind("goal", inputs={"x": 1}, step=3, remembered={"a": 1})
    other = altered(context, command=Command("go"), remembered={})
    assert other == replace(context, command=Command("go"), remembered={}) and type(other) is kind
    assert (context.command, context.remembered) == (None, {"a": 1})
    with pytest.raises(FrozenInstanceError):
        other.step = 4  # type: ignore[misc]


def test_a_context_made_at_once_has_the_plain_defaults_too() -> None:
    whole = RoundContext("goal")
    context = made(
        {
            each.name: getattr(whole, each.name)
            for each in fields(whole)
            if each.name not in ("commands", "node_goal", "command")
        }
    )
    assert context == whole == replace(context) == altered(context) and repr(context) == repr(whole)


def test_whoever_asks_for_the_cancel_token_gets_the_same_one() -> None:
    signals = Signals()
    context = RoundContext("goal", signals=signals)
    assert (signals.is_cancelled, context.stop_requested) == (False, False)
    tokens: list[threading.Event] = []
    threads = [threading.Thread(target=lambda: tokens.append(signals.cancelled)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens[0].set()
    assert len({id(token) for token in tokens}) == 1
    assert (signals.is_cancelled, context.stop_requested) == (True, True)


def test_progress_that_is_a_text_alone_is_refused_with_the_call_that_works() -> None:
    with pytest.raises(UnstorableValue, match=r"context\.progress\(done, total, text\).*'page 3'"):
        RoundContext("g").progress("page 3")  # type: ignore[arg-type]


def test_the_cancel_token_is_true_once_it_is_set() -> None:
    context = RoundContext("g")
    assert not context.cancelled
    context.cancelled.set()
    assert context.cancelled and context.cancelled.is_set()


def test_what_is_recorded_can_be_looked_at_without_a_call() -> None:
    context = RoundContext("g")
    assert context.recorded("paid") is None and context.recorded("paid", 0) == 0
    assert context.once("paid", lambda: {"sum": 3}) == context.recorded("paid") == {"sum": 3}
    later = RoundContext("g", journal=Journal(recorded=context.journal.recorded))
    assert later.recorded("paid") == {"sum": 3}


def test_an_attached_file_never_has_the_name_of_a_submitted_file() -> None:
    submitted = [File(name, b"last week") for name in ("1-sales.txt", "1-2-sales.txt")]
    files = tuple(each.reference for each in submitted)
    names = []
    for _ in range(2):  # Each attempt of the round gives the same names.
        context = RoundContext("the goal", step=1, files=files)
        attached = [context.attach(File("sales.txt", content)) for content in (b"1", b"2", b"1")]
        names.append([each["file"] for each in attached])
        assert context.file("1-3-sales.txt").content == b"1"
    assert names == [["1-3-sales.txt", "1-4-sales.txt", "1-3-sales.txt"]] * 2
