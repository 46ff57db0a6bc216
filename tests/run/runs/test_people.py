"""People's view and answers, over a real server: the inbox, approvals, doubts, budgets."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Client,
    Conflict,
    DamagedRun,
    InvalidInput,
    InvalidTransition,
    RunStatus,
    Settings,
    Stale,
)
from perdure.worker.cli.commands.resume import asked_for_approval
from perdure.worker.cli.main import run as perdure
from perdure.worker.domain.record import Record
from perdure.worker.operations.waiting_runs import Entry, WaitingRuns
from tests.support.example_flows import costs_and_questions  # noqa: F401 -- registers its flows
from tests.support.pending_interrupts import ASKED
from tests.support.redis_servers import until
from tests.support.runs import claim, hash_of, pause_here

#: The limits of the run in a test.
LIMITS = {"tokens": 2_000, "money": 0.5}


def asking(client: Client, kind: str, run_id: str = "r", **changed: str) -> str:
    """Submit a run, and let it ask something of this kind, as a worker's commit leaves it."""
    client.submit("countdown", "x", {"rounds": 1}, run_id=run_id, budgets=LIMITS)
    again(client, kind, run_id, **changed)
    return run_id


def again(client: Client, kind: str, run_id: str = "r", **changed: str) -> None:
    """Let the next round ask too."""
    granted = claim(client._store, run_id, known=("countdown",))
    asked = ASKED[kind]
    data = {} if asked["data"] is None else {"i_data": json.dumps(asked["data"])}
    fields = {
        "i_kind": asked["kind"],
        "i_reason": asked["reason"],
        "i_default": "null",
        **data,
        **changed,
    }
    assert pause_here(client._store, granted, **fields) == ("ok", "interrupted")


def stored(client: Client, run_id: str = "r") -> Record:
    record = Record(hash_of(client._store, run_id))
    record.check()
    return record


@pytest.mark.parametrize("first", [10_000, 4, 2, 1])
def test_the_inbox_holds_what_waits_for_people_those_that_waited_longest_first(
    client: Client, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.FIRST", first)
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.BATCH", 2)
    names = ["c", "a", "d", "b"]
    for run_id in sorted(names):
        client.submit("countdown", "x", run_id=run_id)
    for run_id in names:
        again(client, "question", run_id)
        until(
            lambda run_id=run_id: (
                client._store.time() > int(hash_of(client._store, run_id)["updated_at"])
            ),
            "the next millisecond",
        )  # type: ignore[misc]
    client.submit("countdown", "x", run_id="e")
    assert [waiting.run_id for waiting in client.inbox()] == names
    pages = [client.inbox(3), client.inbox(3, client.inbox(3).cursor)]
    assert [[waiting.run_id for waiting in page] for page in pages] == [["c", "a", "d"], ["b"]]
    assert pages[0].cursor is not None and pages[1].cursor is None
    client.resume("c", 1)
    client.request_stop("d")
    client._store.redis.hset(client._store.keys.run("a"), "inputs", "{")
    left = client.inbox()
    assert [waiting.run_id for waiting in left] == ["b"] and left.damaged == ("a",)


def test_the_inbox_reads_no_more_of_its_index_than_it_has_to(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.FIRST", 5)
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.BATCH", 4)
    store, waits = client._store, random.Random(1)
    asked: list[str] = []
    many_fields = store.reads.many_fields

    def noted(run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        asked.extend(run_ids)
        return many_fields(run_ids, names)

    monkeypatch.setattr(store.reads, "many_fields", noted)
    for most, is_read in ((0, 20), (40, 60)):  # how long a run works before it asks
        since = {f"{number:02}": number + waits.randint(0, most) for number in range(60)}
        for number, (run_id, at) in enumerate(since.items()):
            index = "interrupted:children" if number % 3 == 2 else "interrupted"
            store.redis.zadd(store.keys.index(index), {run_id: number})
            store.redis.hset(store.keys.run(run_id), "updated_at", at)
        waiting = WaitingRuns(store, None, None)
        assert list(waiting.entries()) == sorted((at, each) for each, at in since.items())
        asked.clear()
        next(WaitingRuns(store, None, None).entries())
        assert len(asked) <= is_read and len(set(asked)) == len(asked)


def test_the_function_of_the_guide_tells_each_question_once(client: Client) -> None:
    text = (Path(__file__).parents[3] / "docs/guides/people.md").read_text("utf-8")
    [example] = re.findall(r"```python\n# tell_people.py\n(.*?)```", text, re.DOTALL)
    module: dict[str, Any] = {}
    exec(example, module)
    sent: list[str] = []
    asking(client, "question", "first")
    asking(client, "approval", "second")
    for _ in range(2):
        module["tell_people"](client, sent.append)
    assert sorted(each.split()[1] for each in sent) == ["first:", "second:"]
    assert any("perdure resume second --approve" in each for each in sent)
    client.resume("second", "approve")
    module["tell_people"](client, sent.append)
    assert len(sent) == 2
    assert [note.key for note in client.notes("told-to-people")] == ["first:0:0"]


def test_a_page_of_the_inbox_goes_on_where_it_ended_though_runs_have_left(client: Client) -> None:
    for run_id in "abc":
        asking(client, "question", run_id)
    cursor = client.inbox(1).cursor
    for waiting in client.inbox(1):
        client.resume(waiting.run_id, 1)
    assert len(client.inbox(5, cursor)) == 2


def test_a_run_that_was_stopped_while_the_inbox_was_read_is_not_in_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Meanwhile(WaitingRuns):
        def entries(self) -> Iterator[Entry]:
            found = list(super().entries())
            client.request_stop("r")
            return iter(found)

    asking(client, "approval")
    assert len(client.inbox()) == 1
    monkeypatch.setattr("perdure.worker.operations.inbox.WaitingRuns", Meanwhile)
    assert len(client.inbox()) == 0


def test_budgets_given_at_submission_are_stored_over_the_flows_own(client: Client) -> None:
    run = client.submit(
        "thinker",
        "x",
        {"notes": 1, "tokens": 1},
        run_id="r",
        budgets={"tokens": 5, "commands.note": 2},
    )
    assert (
        run.details["budgets"] == {"tokens": 5, "money": 1.0, "commands.note": 2}
        and "spent" not in run.details
    )
    assert stored(client).budgets == run.details["budgets"]
    assert client.flows()["thinker"]["budgets"] == {"tokens": 10_000, "money": 1.0}
    assert "budgets" not in hash_of(client._store, client.submit("countdown", "x").id)


@pytest.mark.parametrize(
    "budgets",
    [
        {"token": 5},
        {"tokens": 0},
        {"tokens": True},
        {"tokens": 10**400},
        {"tokens": float("nan")},
        [5],
        {5: 5},
    ],
)
def test_a_budget_that_is_none_is_refused_and_nothing_stored(client: Client, budgets: Any) -> None:
    with pytest.raises(InvalidInput, match="budgets"):
        client.submit("countdown", "x", run_id="r", budgets=budgets)
    assert client._store.reads.fields("r") is None


def test_budgets_are_part_of_what_an_idempotency_key_stands_for(client: Client) -> None:
    first = client.submit("countdown", "x", idempotency_key="k", budgets={"tokens": 5})
    assert (
        client.submit("countdown", "x", idempotency_key="k", budgets={"tokens": 5}).id == first.id
    )
    for other in ({"tokens": 6}, None):
        with pytest.raises(Conflict):
            client.submit("countdown", "x", idempotency_key="k", budgets=other)
    assert (
        client.submit("countdown", "x", idempotency_key="n").id
        == client.submit("countdown", "x", idempotency_key="n", budgets={}).id
    )


def test_more_is_added_to_the_limits_of_a_run_that_waits_and_its_content_stays_sound(
    client: Client,
) -> None:
    asking(client, "budget")
    run = client.resume("r", add={"tokens": 1_000, "money": 0.25})
    assert (
        run.status is RunStatus.RUNNING
        and run.details["budgets"] == {"tokens": 3_000, "money": 0.75} == stored(client).budgets
    )
    assert [
        event.data for event in client.events("r", follow=False) if event.type == "resumed"
    ] == [{"added": {"tokens": 1_000, "money": 0.25}}]


def test_more_for_a_stopped_run_whose_budget_was_exhausted_lets_it_go_on_and_it_asks_no_more(
    client: Client,
) -> None:
    asking(client, "budget")
    client.request_stop("r")
    assert client.resume("r").status is RunStatus.INTERRUPTED, "without more it asks again"
    client.request_stop("r")
    assert client.resume("r", add={"tokens": 1_000}).status is RunStatus.RUNNING


def test_more_may_come_with_an_answer_or_for_a_run_that_was_stopped(client: Client) -> None:
    asking(client, "question")
    assert client.resume("r", "yes", {"tokens": 1}).details["budgets"]["tokens"] == 2_001
    client.request_stop("r", "now")
    assert client.resume("r", add={"tokens": 1}).details["budgets"]["tokens"] == 2_002
    assert stored(client).fields["i_answer"] == '"yes"'


@pytest.mark.parametrize(
    ("add", "words"),
    [
        ({"cycles": 5}, "no budget 'cycles' to raise.*it has: money, tokens"),
        ({"token": 5}, "did you mean 'tokens'"),
        ({"tokens": -5}, "above 0"),
        (
            {"tokens": 100},
            "would stop here again with a limit of 2,100; add more than 100: .*--add tokens=2000",
        ),
        ({}, "would stop here again"),
        ({"tokens": 1e15}, "above 0"),
    ],
)
def test_what_cannot_be_added_is_refused_and_the_run_stays_as_it_is(
    client: Client, add: dict[str, float], words: str
) -> None:
    asking(client, "budget")
    before = hash_of(client._store)
    with pytest.raises(InvalidInput, match=words):
        client.resume("r", add=add)
    assert hash_of(client._store) == before


def test_a_run_that_runs_gets_no_more(client: Client) -> None:
    client.submit("countdown", "x", run_id="r", budgets=LIMITS)
    with pytest.raises(InvalidTransition, match="only an interrupted or a stopped run"):
        client.resume("r", add={"tokens": 5})
    assert stored(client).budgets == LIMITS


def test_raising_a_budget_does_not_vouch_for_content_that_was_damaged_before(
    client: Client,
) -> None:
    asking(client, "budget")
    client._store.redis.hset(client._store.keys.run("r"), "goal", "another")
    with pytest.raises(DamagedRun, match="digest"):
        client.resume("r", add={"tokens": 1_000})
    assert client.get("r").status is RunStatus.INTERRUPTED


def test_of_many_who_add_at_once_one_does_and_the_others_are_told(client: Client) -> None:
    asking(client, "budget")

    def add(_: int) -> str:
        try:
            client.resume("r", add={"tokens": 1_000})
        except (Stale, InvalidTransition) as error:
            return type(error).__name__
        return "added"

    with ThreadPoolExecutor(8) as people:
        told = list(people.map(add, range(8)))
    assert told.count("added") == 1 and set(told) <= {"added", "Stale", "InvalidTransition"}
    assert stored(client).budgets == {"tokens": 3_000, "money": 0.5}


def test_a_charge_that_comes_between_the_look_and_the_resume_is_not_lost(
    client: Client, settings: Settings
) -> None:
    asking(client, "budget")

    late = Client(settings=settings)
    message = late._session.message

    def charge(record: Record, epochs: int) -> str:
        late._store.redis.hset(
            late._store.keys.run("r"), mapping={"spent": '{"tokens":1}', "digest": "of that"}
        )
        return message(record, epochs)

    late._session.message = charge  # type: ignore[method-assign]
    with pytest.raises(Stale):
        late.resume("r", add={"tokens": 1_000})
    late.close()
    assert (
        hash_of(client._store)["spent"] == '{"tokens":1}'
        and hash_of(client._store)["budgets"] == '{"money":0.5,"tokens":2000}'
    )


@pytest.mark.parametrize(
    ("kind", "good"),
    [("approval", {"edit": {"path": "a"}}), ("in_doubt", {"tell": "it has happened"})],
)
def test_an_answer_that_is_none_is_refused_before_it_is_sent(
    client: Client, kind: str, good: Any
) -> None:
    asking(client, kind)
    for answer in ("maybe", {"approve": "yes", "x": 1}, 5, None):
        with pytest.raises(InvalidInput, match=r"run r.*expected"):
            client.resume("r", answer)
    assert client.get("r").status is RunStatus.INTERRUPTED
    assert client.resume("r", good).status is RunStatus.RUNNING


def test_why_tells_a_count_of_commands_as_a_whole_number(client: Client) -> None:
    asking(
        client, "budget", i_data=json.dumps({"budget": "commands.buy", "limit": 2, "spent": 2.0})
    )
    assert "commands.buy is exhausted: 2 of 2 are spent" in client.why("r").sentence


def test_an_answer_that_names_its_question_answers_no_other(client: Client) -> None:
    """ann and bob see the same approval > ann approves > the run asks to approve another command >
    bob approves.
    """
    asking(client, "approval")
    [seen] = client.inbox()
    client.resume("r", "approve", interrupt=seen.id)
    with pytest.raises(Stale):
        client.resume("r", "approve", interrupt=seen.id)
    again(client, "approval")
    with pytest.raises(Stale, match="no open interrupt"):
        client.resume("r", "approve", interrupt=seen.id)
    [now] = client.inbox()
    assert (
        now.id != seen.id
        and client.resume("r", "approve", interrupt=now.id).status is RunStatus.RUNNING
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("approval", "approval of remove {"),
        ("in_doubt", "--answer '\"retry\"'"),
        (
            "budget",
            "2,100 of 2,000 are spent. To continue with as much again: perdure resume r --add tokens=2000",
        ),
        ("pause", "let it continue: perdure resume r"),
        ("question", "perdure resume r --answer JSON"),
    ],
)
def test_why_names_the_command_that_answers(client: Client, kind: str, told: str) -> None:
    asking(client, kind)
    verdict = client.why("r")
    assert told in verdict.sentence and verdict.details["kind"] == kind


@pytest.fixture
def here(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line here, on the test's server."""
    monkeypatch.setenv("PERDURE_REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (
            "question",
            ["--approve"],
            "--approve answers an approval; run r asks: which of the two?",
        ),
        ("budget", ["--refuse"], "--refuse answers an approval; run r asks: its budget is spent"),
        ("pause", ["--edit", "{}"], "--edit answers an approval"),
        ("approval", ["--approve", "--refuse", "no"], "two answers"),
        ("approval", ["--edit", "5"], "as a JSON object"),
        ("approval", ["--edit", "{"], "as a JSON object"),
        ("approval", ["--answer", "perhaps"], 'expected "approve"'),
        ("approval", [], 'expected "approve"'),
        ("budget", ["--add", "tokens"], "KEY=VALUE"),
        ("budget", ["--add", "tokens=many"], "expects a number"),
        ("budget", ["--add", "cycles=1"], "no budget 'cycles'"),
        ("budget", [], "add more than 100"),
    ],
)
def test_an_answer_that_does_not_fit_is_a_usage_error_and_changes_nothing(
    client: Client, capsys: pytest.CaptureFixture[str], kind: str, arguments: list[str], words: str
) -> None:
    asking(client, kind)
    before = hash_of(client._store)
    assert perdure(["resume", "r", *arguments]) == 2
    assert words in capsys.readouterr().err and hash_of(client._store) == before


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--approve"], "approve"),
        (["--refuse"], "refuse"),
        (["--refuse", "not that one"], {"refuse": "not that one"}),
        (["--edit", '{"path": "a"}'], {"edit": {"path": "a"}}),
        (["--answer", '{"refuse": "no"}'], {"refuse": "no"}),
    ],
)
def test_an_approval_is_answered_from_the_command_line(
    client: Client, arguments: list[str], answer: Any
) -> None:
    asking(client, "approval")
    assert perdure(["resume", "r", *arguments, "--interrupt", "0:9"]) == 8, "it asks something else"
    assert perdure(["resume", "r", *arguments]) == 0
    assert json.loads(hash_of(client._store)["i_answer"]) == answer


def test_an_approval_from_the_command_line_names_the_question_that_was_looked_at(
    client: Client,
) -> None:
    asking(client, "approval")
    assert asked_for_approval(client, "r", "--approve", None) == "0:0"
    assert asked_for_approval(client, "r", "--approve", "9:9") == "9:9"


@pytest.mark.usefixtures("here")
def test_the_inbox_is_plain_lines_in_a_pipe_and_a_document_on_demand(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ASKED:
        asking(client, kind, kind)
    assert perdure(["inbox"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (kind, "countdown", kind) for kind in ASKED
    ] and {len(row) for row in rows} == {8}
    [approval] = [row for row in rows if row[2] == "approval"]
    assert (
        approval[5].startswith("remove {")
        and approval[6] == "perdure resume approval --approve --interrupt 0:0"
        and approval[7] == ""
    )
    assert perdure(["inbox", "--json", "--limit", "2"]) == 0
    told = capsys.readouterr()
    assert [each["kind"] for each in json.loads(told.out)] == list(ASKED)[
        :2
    ] and "there are more" in told.err


@pytest.mark.usefixtures("here")
def test_what_is_to_be_approved_is_shown_whole_on_a_terminal_too(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"text": "x" * 5_000, "then": "rm -rf"}
    asking(
        client,
        "approval",
        i_data=json.dumps({"approval": {"command": "write", "args": args, "digest": "d"}}),
    )
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for command in ("show", "inbox"):
        assert perdure([command] + ["r"] * (command == "show")) == 0
        assert f"write {json.dumps(args)}" in capsys.readouterr().out


def test_a_run_tells_how_long_it_has_waited_for_people(client: Client) -> None:
    client.submit("countdown", "x", run_id="r")
    assert "idle_seconds" not in client.get("r").details
    client._store.redis.hset(client._store.keys.run("r"), "idle", "75500")
    assert client.get("r").details["idle_seconds"] == 75.5


@pytest.mark.usefixtures("here")
def test_totals_are_listed_only_where_some_run_on_the_page_has_any(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.submit("countdown", "x", run_id="a")
    assert perdure(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("\t")[5:] == ["x"]
    client.submit("countdown", "x", run_id="b")
    client._store.redis.hset(client._store.keys.run("b"), "spent", '{"tokens":1234}')
    assert perdure(["list"]) == 0
    assert [line.split("\t")[5:] for line in capsys.readouterr().out.splitlines()] == [
        ["x", "1234"],
        ["x", ""],
    ]
