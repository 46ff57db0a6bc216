"""The text of a run for watchers: readable at every width, and never able to move the cursor."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from perdure.worker.cli.views.live import LiveView
from perdure.worker.domain.event import Event
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.stream import StreamItem
from perdure.worker.presentation.text import duration, plain
from perdure.worker.presentation.timeline import row_of

NOW = datetime.now(UTC)
COMMIT = "5f693c47f62afddd1a88000fa92de3672085c8e2"
VERDICT = f'{{"commit":"{COMMIT}","exit":1,"outcome":"bad","seconds":0.305,"tail":"total: 370, exp…'


def event(kind: str, step: int, node: str = "Executor", attempt: int = 1, **data: Any) -> Event:
    return Event(f"{step}-0", kind, NOW, step, attempt, node, data)


def a_run(phase: str = "leased", **details: Any) -> Run:
    state = ExecutionState(current_node="Executor", step=3)
    now = datetime.now(UTC)  # this instant: its age takes space in the picture
    found = {
        "attempt": 2,
        "losses": 1,
        "owner": "vm:77",
        "claimed_at": now.isoformat(),
        "lease_until": now.isoformat(),
        **details,
    }
    return Run(
        "0331a86cada74a1e",
        "bisect",
        "who broke\nit?",
        {},
        RunStatus.RUNNING,
        state,
        None,
        {},
        None,
        now,
        now,
        {},
        phase,
        found,
    )


STORY = [
    event("submitted", 0, "Controller"),
    event(
        "committed",
        0,
        "Controller",
        command="test_commit",
        args=f'{{"commit":"{COMMIT}"}}',
        left="95",
        steps="7",
        took="17",
    ),
    event("committed", 1, command="test_commit", args="{}", observation=VERDICT, took="374"),
    event(
        "committed",
        2,
        "Controller",
        command="test_commit",
        args=f'{{"commit":"{COMMIT}"}}',
        left="47",
        steps="6",
        took="5",
    ),
    event("lost", 3, owner="vm:66", losses="1"),
]


def drawn(width: int, height: int = 24, events: list[Event] = STORY) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None
    )
    view = LiveView(console)
    view._live.start = lambda *_, **__: None  # type: ignore[method-assign]  # one picture, no thread that draws
    view.show(a_run(progress={"done": 2, "total": 9, "text": "47 commits left"}), events)
    with console.capture() as captured:
        console.print(view.render())
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_live_view_is_readable_at_this_width(width: int) -> None:
    lines = drawn(width)
    text = "\n".join(lines)
    assert max(len(line) for line in lines) <= width
    always = (
        "bisect  who broke it?",
        "running",
        "step 3",
        f"{COMMIT[:12]} is bad (exit 1)",
        "worker vm:66 was lost",
        "2 of 9 · 47 commits",
    )
    for words in (*always, "on vm:77"):
        assert words in text, text
    assert ("Executor" in text) == (width >= 60)
    if width >= 60:
        assert "95 left · steps 7" in text and "attempt 2" in text and "1 worker lost" in text


def test_a_long_run_shows_the_last_rows_that_fit_and_how_many_came_before() -> None:
    many = [
        event("committed", step, command="tick", args='{"left":3}', took="5") for step in range(500)
    ]
    lines = drawn(80, 20, many)
    assert len(lines) < 20
    assert any("earlier" in line for line in lines) and any(
        line.lstrip().startswith("499 ") for line in lines
    )
    assert not any(line.lstrip().startswith("100 ") for line in lines)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (event("committed", 1, observation=VERDICT), f"{COMMIT[:12]} is bad (exit 1)"),
        (event("committed", 0, command="ask", args='{"question":"who?"}'), "ask who?"),
        (event("committed", 0, command="add", args='{"a":1,"b":[2]}'), "add a=1 b=[2]"),
        (
            event("committed", 2, command="finish", args="{}", answer='{"text":"it was me"}'),
            "finish: it was me",
        ),
        (event("committed", 2, command="finish", args="{}"), "finish"),
        (event("committed", 2), "done"),
        (event("committed", 1, observation="\x1b[31mred\x07"), "�[31mred�"),
        (
            event("failed", 1, error="run r, step 1, node Executor: no disk", retry_in="1500"),
            "failed, retrying in 1.5 s: no disk",
        ),
        (
            event("stopped", 1, by="me", reason="enough", in_doubt="1/Executor/1"),
            "stopped, by me, because enough, in doubt 1/Executor/1",
        ),
        (event("resumed", 1, answer={"yes": True}), "resumed with yes true"),
        (event("something_new", 1, why="who knows"), "something_new why who knows"),
    ],
)
def test_an_event_is_told_in_a_few_words(told: Event, words: str) -> None:
    assert row_of(told).text == words


def test_a_strangers_text_cannot_move_the_cursor_or_break_the_line() -> None:
    assert plain("a\n\tb\x1b[2J\r\x07 c", 8) == "a b�[2J…"


def test_durations_are_told_in_the_unit_that_fits() -> None:
    told = [duration(seconds) for seconds in (-1, 0.012, 4.44, 59.6, 61, 3_600, 93_600)]
    assert told == ["0.00 s", "0.01 s", "4.4 s", "1 min", "1 min 1 s", "1 h", "1 d 2 h"]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (event("completed", 60, "Controller", unfinished="30"), "unfinished after 30 of 30 cycles"),
        (
            event(
                "interrupted",
                5,
                reason="budget_exhausted",
                budget="commands.buy",
                limit=2,
                spent=2.0,
            ),
            "budget exhausted: commands.buy 2 of 2 (100 %)",
        ),
    ],
)
def test_a_row_says_in_plain_words_what_happened(seen: Event, words: str) -> None:
    assert row_of(seen).text == words


def texts_drawn(width: int, items: list[StreamItem], height: int = 24) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None
    )
    view = LiveView(console)
    view._live.start = lambda *_, **__: None  # type: ignore[method-assign]  # one picture, no thread that draws
    view.show(a_run(), STORY)
    for item in items:
        view.show_text(item)
    with console.capture() as captured:
        console.print(view.render())
    return captured.get().splitlines()


def text_item(text: str, kind: str = "text", part: str = "", **place: int) -> StreamItem:
    return StreamItem(
        "1-0/1-0", "text", **{"step": 3, "attempt": 2, **place}, kind=kind, part=part, text=text
    )


def shown_text(lines: list[str]) -> list[str]:
    return [line.removeprefix("│ ").rstrip() for line in lines if line.startswith("│ ")]


@pytest.mark.parametrize("width", [40, 80])
def test_the_live_view_shows_the_text_of_the_round_in_flight(width: int) -> None:
    items = [
        text_item("of another step", step=2),
        text_item("of a lost attempt", attempt=1),
        text_item("look at the till", "thinking"),
        *(text_item(f"word{number} ") for number in range(30)),
        text_item('{"commit": ', "arguments", "test_commit"),
        text_item("\x1b[2Jdown\nand on"),
    ]
    lines = texts_drawn(width, items)
    assert len(lines) <= 24 and max(len(line) for line in lines) <= width
    text = " ".join(shown_text(lines))
    assert "word29 �[2Jdown and on" in text and 'test_commit {"commit":' in text
    assert "another" not in text and "lost" not in text
    assert ("look at the till" in text) == (width == 80), "in few columns the newest lines are left"


@pytest.mark.parametrize("width", [40, 80])
def test_the_live_view_says_that_text_is_retracted_until_there_is_other_text(width: int) -> None:
    given_up = StreamItem("1-0/1-0", "retracted", 3, 1)
    half = [text_item("half of it", attempt=1), given_up]
    assert shown_text(texts_drawn(width, half)) == [
        "half of it",
        "retracted: this attempt was given up",
    ]
    again = shown_text(texts_drawn(width, [*half, text_item("the whole")]))
    assert again == ["the whole"]
    committed = StreamItem("1-0/1-0", "committed", 3, 2)
    assert shown_text(texts_drawn(width, [text_item("the whole"), committed])) == []


def test_a_long_text_keeps_its_end() -> None:
    lines = texts_drawn(80, [text_item(f"{number} ") for number in range(9_000)])
    assert shown_text(lines)[-1].endswith("8999") and len(lines) <= 24
