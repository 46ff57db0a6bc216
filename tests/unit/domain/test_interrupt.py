"""PendingInterrupt: of what kind the question of a run is, and the commands that answer it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import timedelta

import pytest

from perdure import PendingInterrupt, RunStatus, Waiting
from perdure.worker.cli.commands.resume import resume_command
from tests.support.pending_interrupts import ASKED, NOW, REMOVE, a_run


@pytest.mark.parametrize("kind", ASKED)
def test_what_is_asked_is_known_by_what_the_engine_stored(kind: str) -> None:
    waiting = PendingInterrupt.of(a_run(kind))
    assert (
        waiting is not None and waiting.kind == kind and waiting.question == ASKED[kind]["reason"]
    )
    assert (waiting.id, waiting.since) == ("2:7", NOW - timedelta(minutes=3))
    assert json.loads(json.dumps(waiting.to_dict()))["how"] == list(waiting.how())


def test_an_approval_tells_the_exact_command_its_digest_and_what_happens_otherwise() -> None:
    waiting = PendingInterrupt.of(a_run("approval"))
    assert waiting is not None and (waiting.command, waiting.args, waiting.digest) == (
        "remove",
        REMOVE,
        "5f693c47",
    )
    assert (waiting.deadline, waiting.default) == (NOW + timedelta(minutes=55), "refuse")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("before", {"approval": {"command": "remove", "args": {}}}),
        ("before", {"budget": "tokens", "limit": 1, "spent": 1}),
        ("budget", {"budget": "tokens", "limit": 1}),
        ("node", {"budget": "tokens", "limit": 1, "spent": 1}),
        ("node", {"approval": "remove"}),
        ("node", {"in_doubt": "3/Executor/1"}),
    ],
)
def test_a_question_that_only_looks_like_another_kind_is_none(
    kind: str, data: dict[str, object]
) -> None:
    run = a_run("question")
    run.details["interrupt"].update(kind=kind, data=data, reason="budget_exhausted")
    waiting = PendingInterrupt.of(run)
    assert waiting is not None and waiting.kind == ("question" if kind == "node" else "pause")


def test_a_run_that_asks_nothing_waits_for_nobody() -> None:
    assert PendingInterrupt.of(a_run(None)) is None
    assert PendingInterrupt.of(a_run("question", answered=True)) is None
    assert PendingInterrupt.of(a_run("question", RunStatus.RUNNING)) is None
    stopped = PendingInterrupt.of(a_run("question", RunStatus.STOPPED))
    assert stopped is not None, "it will ask again when it is resumed"


@pytest.mark.parametrize(
    ("limit", "spent", "amount"),
    [
        (2_000, 2_100, "2000"),
        (0.5, 0.6, "0.5"),
        (100, 250, "250"),
        (2_000_000.0, 2_000_000, "2000000"),
    ],
)
def test_the_command_for_an_exhausted_budget_adds_enough(
    limit: float, spent: float, amount: str
) -> None:
    run = a_run("budget")
    run.details["interrupt"]["data"] = {"budget": "tokens", "limit": limit, "spent": spent}
    waiting = PendingInterrupt.of(run)
    assert waiting is not None and waiting.how("hf") == (
        f"hf resume {run.id} --add tokens={amount}",
    )


@pytest.mark.parametrize("kind", ASKED)
def test_every_command_can_be_given_to_a_shell_as_it_is(kind: str) -> None:
    waiting = PendingInterrupt.of(a_run(kind))
    assert waiting is not None
    for command in waiting.how():
        program, resume, *given = shlex.split(command)
        taken = resume_command.make_context("resume", given).params
        assert (program, resume, taken["run_id"]) == ("perdure", "resume", waiting.run_id)
        options = {name for name, value in taken.items() if value} - {"run_id", "interrupt"}
        assert len(options) == (0 if kind == "pause" else 1)


def test_the_earlier_name_is_the_same_class() -> None:
    assert Waiting is PendingInterrupt


@pytest.mark.parametrize(("kind", "answers"), [("in_doubt", 3), ("question", 1), ("approval", 1)])
def test_one_line_never_tells_the_harmful_answer_to_a_doubt_alone(kind: str, answers: int) -> None:
    waiting = PendingInterrupt.of(a_run(kind))
    assert waiting is not None
    line = waiting.how_in_one_line()
    assert line.startswith(waiting.how()[0]) and len(line.split(" or --")) == answers


def test_a_run_without_a_goal_is_titled_by_its_inputs() -> None:
    inputs = {"city": "Oslo", "days": 3, "notes": "x" * 1000, "more": ["y" * 50] * 20}
    run = replace(a_run("question", epoch=1), goal="", inputs=inputs)
    assert run.title.startswith("city=Oslo days=3 notes=xxx") and "… more=[" in run.title
    assert len(run.title) <= 200 and run.purpose == ""
    waiting = PendingInterrupt.of(run)
    assert waiting is not None and waiting.heading == waiting.to_dict()["title"] == run.title
    told = PendingInterrupt.from_dict({**waiting.to_dict(), "title": None, "goal": "g"})
    assert told.heading == "g", "as an older server sends it"
    assert replace(run, goal="go").title == "go"
