"""People's view of runs that wait for them, and of the thoughts and costs of runs: readable at
every width, exact where it matters.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from perdure import PendingInterrupt, RunStatus
from perdure.worker.cli.commands.inbox import print_inbox
from perdure.worker.cli.views.described_run import described
from perdure.worker.cli.views.lines import last_words
from perdure.worker.cli.views.live import LiveView, _said
from perdure.worker.domain.event import Event
from perdure.worker.presentation import questions
from perdure.worker.presentation.text import exact
from perdure.worker.presentation.timeline import Row, row_of
from perdure.worker.presentation.usage import (
    budgets,
    facts,
    money,
    totals,
    used,
    used_and_cached,
    used_in_all,
)
from tests.support.pending_interrupts import ASKED, NOW, REMOVE, a_run


def test_show_tells_how_far_the_round_is() -> None:
    run = a_run("question")
    run = replace(
        run, details={**run.details, "progress": {"done": 3, "total": 5, "text": "page 3"}}
    )
    assert ("progress", "3 of 5 page 3") in described(run)


def waiting(kind: str) -> PendingInterrupt:
    found = PendingInterrupt.of(a_run(kind))
    assert found is not None
    return found


def event(kind: str, node: str = "Controller", **data: Any) -> Event:
    return Event("1-0", kind, NOW, 7, 1, node, data)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_inbox_is_readable_at_this_width_and_its_commands_are_whole(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        print_inbox(console, [waiting(kind) for kind in ASKED], NOW)
    lines = captured.get().splitlines()
    for kind in ASKED:
        for command in waiting(kind).how():
            assert f"  {command}" in lines
    assert f"remove {json.dumps(REMOVE)}" in lines
    told = " ".join(
        line for line in lines if "perdure resume" not in line and not line.startswith("remove")
    )
    for words in (
        "approval 3 min",
        'else "refuse" in 55 min',
        "in doubt",
        "has it happened?",
        "which of the two?",
        "interrupt_before: Executor",
    ):
        assert words in " ".join(told.split()), told
    assert (
        max(
            len(line)
            for line in lines
            if "perdure resume" not in line and not line.startswith("remove")
        )
        <= width
    )


@pytest.mark.parametrize(
    "value", [REMOVE, "a  b\u00a0\u200b\x07\x1b[2J", ["\U000e0041"], {"\u2066k": None}]
)
def test_what_is_to_be_approved_is_told_exactly_and_every_character_of_it_can_be_seen(
    value: Any,
) -> None:
    assert (
        json.loads(exact(value)) == value
        and exact(value).isprintable()
        and exact("a  b") == '"a  b"'
    )


def test_characters_that_show_nothing_are_told_as_escapes() -> None:
    """Two variation selectors hide a byte. All of these count as printable."""
    selectors = "".join(
        chr(0xE0100 + byte - 16) if byte >= 16 else chr(0xFE00 + byte) for byte in b"; rm \x01"
    )
    blanks = "\u034f\u115f\u1160\u17b4\u180b\u2800\u3164\uffa0\U00013441\U00016fe4\U0001d159"
    value = {f"to{selectors}": f"ann{selectors}{blanks}"}
    assert exact(value).isascii() and json.loads(exact(value)) == value
    assert exact({"to": "Zoë 日本 é 😀"}) == '{"to": "Zoë 日本 é 😀"}', "what can be seen stays"


@pytest.mark.parametrize("kind", ASKED)
def test_show_and_the_end_of_watch_tell_what_is_asked_and_each_way_to_answer(kind: str) -> None:
    run = a_run(kind)
    pairs = described(run)
    ways = [f"perdure resume {run.id} {way}".strip() for way in waiting(kind).ways]
    assert [value for name, value in pairs if name == "go on"] == ways
    words = last_words(run)
    assert words[0] == f"interrupted: {ASKED[kind]['reason']}" and words[-len(ways) :] == [
        f"go on: {way}" for way in ways
    ]
    if kind in ("approval", "in_doubt"):
        assert dict(pairs)["command"] == questions.what(waiting(kind)) == words[1]
    if kind == "budget":
        assert "tokens 2,100 of 2,000 (105 %)" in words[1] and words[1] == dict(pairs)["because"]


def test_show_tells_of_a_stopped_run_what_it_will_ask_again() -> None:
    pairs = dict(described(a_run("approval", RunStatus.STOPPED)))
    assert (
        pairs["will ask"] == questions.what(waiting("approval"))
        and pairs["go on"] == "perdure resume 0331a86cada74a1e"
    )


SPENT = {
    "tokens": 12_345,
    "input_tokens": 12_000,
    "output_tokens": 345,
    "money": 0.123,
    "requests": 1,
    "commands.note": 3,
}


def test_show_tells_what_was_used_and_how_much_of_each_budget() -> None:
    limits = {"tokens": 20_000, "seconds": 90, "commands.note": 3, "cycles": 8}
    begun = (
        NOW - timedelta(minutes=5)
    ).isoformat()  # it has waited since NOW - 3 minutes, and had waited for 75 s before
    run = a_run("pause", spent=SPENT, budgets=limits, cycles=2, started_at=begun, idle_seconds=75.0)
    pairs = described(run, "parrot-1")
    used = "12,345 tokens (12,000 read, 345 written), $0.12, 1 request, note 3 times"
    assert ("model", "parrot-1") in pairs and ("used", used) in pairs
    told = [value for name, value in pairs if name == "budget"]
    assert told == [
        "tokens 12,345 of 20,000 (62 %)",
        "seconds 45 s of 1 min 30 s (50 %)",
        "commands.note 3 of 3 (100 %)",
        "cycles 2 of 8 (25 %)",
    ]
    assert not {"model", "used", "budget"} & {name for name, _ in described(a_run("pause"))}


def test_tokens_that_the_provider_had_cached_are_told_beside_the_others() -> None:
    spent = {**SPENT, "cached_tokens": 9_800}
    text = "12,345 tokens (12,000 read, 9,800 of them cached, 345 written)"
    assert used_in_all(spent).startswith(text)
    assert used_and_cached(spent) == "12,345 tokens · 9,800 of them cached · $0.12"
    assert used_and_cached(SPENT) == used(SPENT) == used(spent) == "12,345 tokens · $0.12"
    row = row_of(event("committed", **{**DECIDED, "cached_tokens": 650}))
    assert "650" not in row.said
    assert facts({**DECIDED, "cached_tokens": 650})[1].startswith("700 tokens · 650")
    assert used_and_cached({**SPENT, "cached_tokens": "many"}) == used(SPENT)


def test_a_round_that_went_on_with_another_model_says_what_failed() -> None:
    told = {"fallback": "model 'a' answers 404: no such model", "prompt": {"turns": 1}}
    for data in (DECIDED, {"command": "finish", "answer": "done"}):
        said = row_of(event("committed", **data, **told)).said
        assert said.endswith("went on with another model: model 'a' answers 404: no such model")
        assert "turns" not in said


def test_totals_name_a_limit_beside_what_is_spent_of_it() -> None:
    found = totals(a_run(None, spent=SPENT, budgets={"money": 0.2, "commands.note": 3}))
    assert [text for text, _ in found] == ["12,345 tokens", "$0.12 of $0.20", "3 of 3 note"]
    assert [round(share, 2) for _, share in found] == [0.0, 0.61, 1.0]
    assert totals(a_run(None, budgets={"tokens": 0})) == [], "what cannot be a limit is none"
    assert totals(a_run(None)) == [] and budgets(a_run(None)) == [] and used_in_all({}) == ""


@pytest.mark.parametrize(
    ("dollars", "told"),
    [(0, "$0.00"), (1234.5, "$1,234.50"), (0.1, "$0.10"), (0.0123, "$0.0123"), (1e-7, "<$0.0001")],
)
def test_money_is_told_to_the_digits_that_say_something(dollars: float, told: str) -> None:
    assert money(dollars) == told


DECIDED: dict[str, Any] = {
    "command": "read_file",
    "args": '{"path":"a.txt"}',
    "thought": "The answer  may stand\nin that file",
    "plan": "[]",
    "model": "parrot-1",
    "tokens": 700,
    "money": 0.004,
    "input_tokens": 690,
}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (event("committed", **DECIDED), "The answer may stand in that file · read_file a.txt"),
        (
            event(
                "committed",
                "Executor",
                command="read_file",
                args="{}",
                observation="text",
                digest="5f69",
                thought="x",
            ),
            "text",
        ),
        (
            event("committed", **{**DECIDED, "command": "finish", "answer": "42"}),
            "The answer may stand in that file · finish: 42",
        ),
        (
            event("interrupted", **ASKED["approval"]["data"], reason="?"),
            "asks for approval: remove path=build/ old� recursive=true",
        ),
        (event("interrupted", **ASKED["in_doubt"]["data"], reason="?"), "in doubt: pay ann"),
        (
            event("interrupted", **ASKED["budget"]["data"], reason="budget_exhausted"),
            "budget exhausted: tokens 2,100 of 2,000 (105 %)",
        ),
        (
            event("interrupted", budget="x", limit=0, spent=1, reason="which?"),
            "interrupted: which?",
        ),
        (
            event("interrupted", approval="x", in_doubt=["y"], reason="which?"),
            "interrupted: which?",
        ),
        (
            event("resumed", added={"tokens": 20_000, "money": 1}),
            "resumed with 20,000 more tokens, $1.00 more money",
        ),
        (
            event("resumed", answer="approve", added={"tokens": 5}),
            "resumed with approve, 5 more tokens",
        ),
    ],
)
def test_a_row_says_the_thought_and_what_came_of_it(told: Event, said: str) -> None:
    assert row_of(told).said == said


def test_the_facts_of_a_round_are_its_model_and_what_it_used() -> None:
    assert facts(DECIDED) == ["parrot-1", "700 tokens · $0.0040"] and facts({"took": "5"}) == []
    assert facts({"tokens": "many", "money": None, "model": 5}) == ["5"], (
        "a flow may tell what it likes"
    )


def live(width: int, rows: list[Event], **details: Any) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, height=30, force_terminal=True, color_system=None
    )
    view = LiveView(console)
    view._live.start = lambda *_, **__: None  # type: ignore[method-assign]  # one picture, no thread that draws
    now = NOW.isoformat()
    found = {
        "attempt": 1,
        "losses": 0,
        "owner": "vm:77",
        "claimed_at": now,
        "lease_until": now,
        **details,
    }
    run = a_run(None, RunStatus.RUNNING, **found)
    object.__setattr__(run, "phase", "leased")
    view.show(run, rows)
    with console.capture() as captured:
        console.print(view.render())
    return captured.get().splitlines()


LIMITS = {
    "budgets": {"tokens": 20_000, "money": 0.5},
    "spent": SPENT,
    "progress": {"done": 1, "total": None, "text": "The answer may"},
}


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_live_view_shows_thought_command_and_totals_at_this_width(width: int) -> None:
    lines = live(width, [event("committed", **DECIDED, took="900")], **LIMITS)
    assert max(len(line) for line in lines) <= width
    text = "\n".join(lines)
    assert "12,345 of 20,000 tokens" in text and "$0.12 of" in text
    assert "read_file a.txt" in text and "The answer may" in text
    assert ("stand in that file · read_file" in text) == (width == 100)


@pytest.mark.parametrize("room", [20, 29, 30, 48, 60])
def test_a_thought_gives_way_to_its_command(room: int) -> None:
    row = Row(
        1,
        "Controller",
        1,
        "read_file a.txt",
        is_round=True,
        thought="思 the answer may stand in that file",
    )
    text = _said(row, room)
    assert text.plain.endswith("read_file a.txt") and text.cell_len <= room
    assert ("…" in text.plain) == (room in (30, 48)) and (" · " in text.plain) == (room >= 30)


def test_what_a_round_in_flight_says_of_itself_is_seen_while_it_is_in_flight() -> None:
    assert any("The answer may" in line for line in live(60, [], **LIMITS))


def test_a_command_that_was_carried_out_once_is_told_as_once() -> None:
    assert used_in_all({"commands.buy": 1}) == "buy once"
    assert used_in_all({"commands.buy": 2, "commands.mail": 0}) == "buy 2 times, mail 0 times"
