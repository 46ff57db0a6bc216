"""Inbox, stuck, fleet and start, as a person without JavaScript sees and uses them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    File,
    Finish,
    RoundContext,
    Run,
    RunStatus,
    command,
    register,
)
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.tables import DeadLetters
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import runtime_of
from tests.support.page_visitor import Visitor

HOSTILE = '<script>alert("x")</script>\u202e\x07'


@register("order")
class Order(ControllerExecutorFlow):
    description = f"Orders something. {HOSTILE}"

    class Inputs(BaseModel):
        what: str
        how_many: int = 1
        gift: bool = False

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish("done")

    @command(idempotent=True)
    def pay(self, context: RoundContext, amount: int) -> int:
        return amount


@register("listless")
class Listless(ControllerExecutorFlow):
    """A flow without a schema of its inputs."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish("done")


#: Details of a run that a submission once more repeats.
REPEATED = ("budgets", "max_rounds", "retry", "interrupt_before", "interrupt_after", "files")


def asks(
    client: Client,
    prefix: str,
    reason: str,
    data: dict[str, Any] | None = None,
    kind: str = "node",
    goal: str = "x",
) -> Run:
    """Submit a run that waits before its first round, and give it a node's question."""
    run = client.submit("countdown", goal, inputs={"rounds": 1}, interrupt_before=["Controller"])
    store = Store(client.settings.redis_url or "", prefix)
    store.redis.hset(
        store.keys.run(run.id),
        mapping={"i_kind": kind, "i_reason": reason, "i_data": json.dumps(data)},
    )
    store.close()
    return run


def given(client: Client, run: Run) -> Any:
    """Return the answer that the run was given last."""
    resumed = [event for event in client.events(run.id, follow=False) if event.type == "resumed"]
    assert len(resumed) == 1
    return resumed[0].data.get("answer")


def test_an_empty_inbox_says_so(visitor: Visitor) -> None:
    assert "Nothing is waiting" in visitor.see("/inbox").text


def test_a_run_that_was_paused_goes_on_by_a_button_and_leaves_the_inbox(
    visitor: Visitor, client: Client
) -> None:
    run = client.submit("countdown", HOSTILE, inputs={"rounds": 1}, interrupt_before=["Controller"])
    page = visitor.see("/inbox")
    assert run.id in page.text and "<script>alert" not in page.html and "\u202e" not in page.html
    after = visitor.send(page, f"/runs/{run.id}/answer")
    assert (
        after.headings[0] == "Inbox"
        and f"Run {run.id} received your answer" in after.text
        and "Nothing is waiting" in after.text
    )
    assert client.get(run.id).status is RunStatus.QUEUED


@pytest.mark.parametrize(
    ("filled", "answer"),
    [
        ({"way": "approve"}, "approve"),
        ({"way": "refuse", "text": "too dear"}, {"refuse": "too dear"}),
        ({"way": "edit", "edit": '{"amount": 5}'}, {"edit": {"amount": 5}}),
    ],
)
def test_an_approval_shows_the_exact_command_and_takes_each_answer(
    visitor: Visitor, client: Client, prefix: str, filled: dict[str, str], answer: Any
) -> None:
    about = {"approval": {"command": "pay", "args": {"amount": 500, "to": HOSTILE}, "digest": "d"}}
    run = asks(client, prefix, "may it pay?", about)
    page = visitor.see("/inbox")
    assert 'pay {"amount": 500' in page.text and "<script>alert" not in page.html
    visitor.send(page, f"/runs/{run.id}/answer", **filled)
    assert given(client, run) == answer


def test_an_answer_that_does_not_fit_is_told_beside_what_was_typed(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    run = asks(
        client, prefix, "may it pay?", {"approval": {"command": "pay", "args": {}, "digest": "d"}}
    )
    again = visitor.send(
        visitor.see("/inbox"), f"/runs/{run.id}/answer", way="edit", edit="{amount: 5}"
    )
    assert (
        again.status == 422
        and "expected the arguments as JSON" in again.text
        and "{amount: 5}" in again.html
    )
    assert client.get(run.id).status is RunStatus.INTERRUPTED
    visitor.send(again, f"/runs/{run.id}/answer", way="edit", edit='{"amount": 5}')
    assert given(client, run) == {"edit": {"amount": 5}}


@pytest.mark.slow
def test_a_question_takes_a_text_or_json(visitor: Visitor, client: Client, prefix: str) -> None:
    for filled, answer in (({"way": "text", "text": "7"}, "7"), ({"way": "json", "text": "7"}, 7)):
        run = asks(client, prefix, "how many?")
        visitor.send(visitor.see(f"/runs/{run.id}/answer"), f"/runs/{run.id}/answer", **filled)
        assert given(client, run) == answer


def test_repeating_a_command_in_doubt_is_asked_once_more_and_shows_key_start_and_worker(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    about = {
        "command": "pay",
        "args": {"amount": 5},
        "key": "r:1:x",
        "began": "2026-11-23T08:00:00+00:00",
        "worker": "vm:7",
    }
    run = asks(client, prefix, "has it happened?", {"in_doubt": about})
    page = visitor.see("/inbox")
    assert (
        "button primary" not in page.html.partition('id="waiting-')[2]
        and "r:1:x" in page.text
        and "vm:7" in page.text
    )
    once_more = visitor.send(page, f"/runs/{run.id}/answer", way="retry")
    assert client.get(run.id).status is RunStatus.INTERRUPTED, "nothing is done before that"
    assert (
        once_more.headings[0] == "Repeat the command?"
        and "r:1:x" in once_more.text
        and "vm:7" in once_more.text
    )
    visitor.send(once_more, f"/runs/{run.id}/answer", way="retry", sure="yes")
    assert given(client, run) == "retry"


@pytest.mark.slow
def test_a_doubt_takes_a_result_words_or_another_try(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    about = {"in_doubt": {"command": "pay", "args": {"amount": 5}}}
    for filled, answer in (
        ({"way": "retry", "sure": "yes"}, "retry"),
        ({"way": "result", "text": '{"paid": true}'}, {"result": {"paid": True}}),
        ({"way": "tell", "text": "it was paid"}, {"tell": "it was paid"}),
    ):
        run = asks(client, prefix, "did it pay?", about)
        visitor.send(visitor.see(f"/runs/{run.id}/answer"), f"/runs/{run.id}/answer", **filled)
        assert given(client, run) == answer


@pytest.mark.slow
def test_a_spent_budget_is_raised_by_an_amount(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    run = client.submit(
        "countdown",
        "x",
        inputs={"rounds": 1},
        interrupt_before=["Controller"],
        budgets={"tokens": 100},
    )
    store = Store(client.settings.redis_url or "", prefix)
    data = {"budget": "tokens", "limit": 100, "spent": 120}
    store.redis.hset(
        store.keys.run(run.id),
        mapping={"i_kind": "budget", "i_reason": "spent", "i_data": json.dumps(data)},
    )
    store.close()
    page = visitor.see("/inbox")
    assert "120 of 100" in page.text
    refused = visitor.send(page, f"/runs/{run.id}/answer", amount="10")
    assert refused.status == 422 and "add more than" in refused.text
    visitor.send(refused, f"/runs/{run.id}/answer", amount="50")
    assert client.get(run.id).details["budgets"] == {"tokens": 150}


@pytest.mark.slow
def test_what_was_answered_meanwhile_is_not_answered_again(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    run = asks(client, prefix, "how many?")
    page = visitor.see("/inbox")
    client.resume(run.id, 3)
    late = visitor.send(page, f"/runs/{run.id}/answer", way="text", text="4")
    assert late.status == 409 and given(client, run) == 3


@pytest.mark.slow
def test_nothing_is_stuck_where_nothing_is(visitor: Visitor) -> None:
    assert "Nothing is stuck" in visitor.see("/stuck").text


def test_what_is_stuck_is_shown_once_for_each_reason_and_can_be_stopped_there(
    visitor: Visitor, client: Client
) -> None:
    runs = [client.submit("countdown", "x", inputs={"rounds": 1}) for _ in range(3)]
    page = visitor.see("/stuck")
    assert page.text.count("no live worker runs controller rounds") == 1 and all(
        run.id in page.text for run in runs
    )
    after = visitor.send(page, f"/runs/{runs[0].id}/stop")
    assert after.headings[0] == "Stuck" and f"Run {runs[0].id} is stopped" in after.text
    assert client.get(runs[0].id).status is RunStatus.STOPPED


def test_a_reason_is_shown_as_it_is_although_it_has_the_word_that_is_a_runs_id(
    visitor: Visitor, client: Client
) -> None:
    client.submit("countdown", "x", inputs={"rounds": 1}, run_id="live")
    assert "no live worker runs controller rounds" in visitor.see("/stuck").text


def test_a_reason_of_several_runs_names_none_of_them_and_has_no_placeholder(
    visitor: Visitor, client: Client
) -> None:
    runs = [client.submit("trouble", "fail", {"kind": "fatal"}) for _ in range(2)]
    for run in runs:
        runtime_of(client).rounds.run(run.id, 0, 0)
    page = visitor.see("/stuck")
    assert page.text.count("It ended errored") == 1 and all(run.id in page.text for run in runs)
    assert "RUN" not in page.text and f"run {runs[0].id}" not in page.text


@pytest.mark.slow
def test_a_damaged_run_can_be_removed_and_refused_messages_are_told(
    visitor: Visitor, client: Client, prefix: str
) -> None:
    run = client.submit("countdown", "x", inputs={"rounds": 1})
    store = Store(client.settings.redis_url or "", prefix)
    store.redis.hset(store.keys.run(run.id), "step", "many")
    store.redis.zrem(store.keys.due, run.id)
    store.close()
    letters = DeadLetters(client.settings.redis_url or "", prefix)
    letters.put_aside("q", HOSTILE, f"it is {HOSTILE}")
    letters.close()
    page = visitor.see("/stuck")
    assert (
        "Damaged" in page.text
        and "Refused messages" in page.text
        and "<script>alert" not in page.html
    )
    visitor.send(page, f"/runs/{run.id}/delete")
    assert run.id not in visitor.see("/stuck").text


def test_the_fleet_shows_queues_and_flows_where_there_is_no_worker(
    visitor: Visitor, client: Client
) -> None:
    client.submit("countdown", "x", inputs={"rounds": 1})
    page = visitor.see("/fleet")
    assert (
        "controller rounds queued 1 the next one has waited" in page.text
        and "No workers" in page.text
    )
    assert "Orders something." in page.text and "<script>alert" not in page.html


@pytest.mark.slow
def test_a_flow_is_paused_and_let_go_on(visitor: Visitor, client: Client) -> None:
    paused = visitor.send(visitor.see("/fleet?all=1"), "/flows/countdown/pause", reason="night")
    assert (
        "Flow countdown is paused" in paused.text
        and client.paused_flows()["countdown"]["reason"] == "night"
    )
    visitor.send(paused, "/flows/countdown/unpause")
    assert client.paused_flows() == {}


def test_a_run_is_started_by_the_form_of_its_flow_and_a_form_sent_twice_makes_one(
    visitor: Visitor, client: Client
) -> None:
    form = visitor.see("/start?flow=order")
    assert "No live worker runs this flow" in form.text and "<script>alert" not in form.html
    filled = {
        "goal": "tea",
        "input.what": "oolong",
        "input.how_many": "2",
        "input.gift": "on",
        "labels": "who=me\nwhere=here",
        "before:Executor": "on",
    }
    first = visitor.send(form, "/start", **filled)
    visitor.send(form, "/start", **filled)
    (run,) = client.runs().runs
    assert first.url.endswith(f"/runs/{run.id}") and "was submitted" in first.text
    assert (run.goal, run.inputs, run.labels) == (
        "tea",
        {"what": "oolong", "how_many": 2, "gift": True},
        {"who": "me", "where": "here"},
    )
    assert (
        client.transcript(run.id)["run"]["options"]["interrupt_before"] == ["Executor"]
        and run.details["submitted_by"] == "local"
    )


def test_what_is_wrong_in_a_form_is_told_at_its_field_and_nothing_typed_is_lost(
    visitor: Visitor, client: Client
) -> None:
    form = visitor.see("/start?flow=order")
    filled = {
        "goal": "tea",
        "input.how_many": "few",
        "labels": "me",
        "max_rounds": "0",
        "budgets": "tokens=many",
        "run_id": "mine",
    }
    wrong = visitor.send(form, "/start", **filled)
    assert wrong.status == 422 and client.runs().runs == []
    for expected in (
        "expected a value",
        "a whole number, got 'few'",
        "expected name=text",
        "of at least 1, got '0'",
        "a number for tokens",
    ):
        assert expected in wrong.text
    kept = wrong.form("/start").fields
    assert {name: kept[name] for name in filled} == filled
    taken = client.submit("countdown", "x", inputs={"rounds": 1}, run_id="mine")
    right = {
        "input.what": "a",
        "input.how_many": "2",
        "labels": "",
        "max_rounds": "",
        "budgets": "",
    }
    exists = visitor.send(wrong, "/start", **right)
    assert exists.status == 422 and "mine exists already" in exists.text and taken.id == "mine"
    assert visitor.send(exists, "/start", run_id="").status == 200


def test_a_run_is_submitted_again_with_what_it_had_also_with_line_breaks(
    visitor: Visitor, client: Client
) -> None:
    labels = {
        "note": "one\ntwo=2\r\nthree", "team": "a=b", "x=y": "z", "edges": " a ", "none": "",
        "quoted": '"q"', "open": '"q', "a b": "c\u2028d", '"n"': "m", "way": "\u202ex",
    }  # fmt: skip
    inputs = {"what": "tea\nwith milk", "how_many": 2, "gift": True}
    run = client.submit("order", "first\nsecond", inputs, labels=labels)
    form = visitor.see(f"/start?again={run.id}")
    fields = {name: text.replace("\n", "\r\n") for name, text in form.form("/start").fields.items()}
    assert "team=a=b" in fields["labels"].splitlines(), "plain where it can be"
    sent = visitor.send(form, "/start", **fields)
    (again,) = [each for each in client.runs() if each.id != run.id]
    assert (sent.status, again.goal, again.inputs) == (200, run.goal, run.inputs)
    assert again.labels == labels
    wrong = visitor.send(form, "/start", labels='team="a\\x"')
    assert wrong.status == 422 and "in the quotes of JSON" in wrong.text


def test_a_run_is_submitted_again_with_its_limits_pauses_and_files(
    visitor: Visitor, client: Client
) -> None:
    run = client.submit(
        "listless",
        "g",
        {"names": ["a"], "inputs": 1},
        budgets={"tokens": 1_234_567, "money": 1234.5678, "seconds": 100, "cycles": 3},
        max_rounds=2,
        retry={"max_attempts": 1, "not_on": ["ValueError"]},
        interrupt_before=["Executor"],
        interrupt_after=["Controller"],
        files=[File("a b.txt", b"x"), File("ü.txt", b"y")],
        deadline=3600,
    )
    form = visitor.see(f"/start?again={run.id}")
    assert "deadline" in form.text
    wrong = visitor.send(form, "/start", budgets="tokens")
    assert wrong.status == 422, "the form keeps what it has of the run"
    visitor.send(wrong, "/start", budgets=form.form("/start").fields["budgets"])
    (again,) = [each for each in client.runs() if each.id != run.id]
    assert again.inputs == run.inputs
    for name in REPEATED:
        assert again.details[name] == run.details[name], name
    visitor.send(visitor.see(f"/start?again={run.id}"), "/start", **{"file:ü.txt": ""})
    third = client.runs().runs[0]
    assert [file.name for file in client.files(third.id)] == ["a b.txt"]


def test_a_form_whose_earlier_run_is_gone_goes_on_without_it(
    visitor: Visitor, client: Client
) -> None:
    run = client.submit("listless", "g", files=[File("a.txt", b"x")])
    form = visitor.see(f"/start?again={run.id}")
    client.request_stop(run.id)
    client.delete(run.id)
    wrong = visitor.send(form, "/start", goal="mine")
    assert wrong.status == 422 and f"Run {run.id} does not" in wrong.text and "a.txt" in wrong.text
    assert wrong.form("/start").fields["goal"] == "mine"
    assert visitor.send(wrong, "/start").status == 200
    assert [(each.goal, client.files(each.id)) for each in client.runs()] == [("mine", [])]


def test_boxes_of_the_flows_own_pauses_are_no_choice(visitor: Visitor, client: Client) -> None:
    visitor.send(visitor.see("/start?flow=listless"), "/start", goal="g")
    (run,) = client.runs()
    assert run.details["chosen"] == []
    visitor.send(visitor.see(f"/start?again={run.id}"), "/start", **{"before:Executor": "on"})
    assert client.runs().runs[0].details["chosen"] == ["interrupt_before"]


def test_the_form_names_what_it_cannot_take_over(visitor: Visitor, client: Client) -> None:
    run = client.submit("order", " g\n", {"what": " tea ", "how_many": 2})
    assert (
        "cannot take over exactly: goal, input what" in visitor.see(f"/start?again={run.id}").text
    )
    plain = client.submit("order", "g", {"what": "tea"})
    assert "cannot take over" not in visitor.see(f"/start?again={plain.id}").text
    paused = client.submit("countdown", "g", {"rounds": 1}, interrupt_before=["Controller"])
    page = visitor.see(f"/start?again={paused.id}&flow=trouble")
    assert "waited for a person before Controller" in page.text
    assert 'id="fault-before"' in page.html


@pytest.mark.slow
def test_a_form_that_was_changed_after_it_had_submitted_says_so_and_submits_another(
    visitor: Visitor, client: Client
) -> None:
    form = visitor.see("/start?flow=order")
    visitor.send(form, "/start", goal="tea", **{"input.what": "a"})
    again = visitor.send(form, "/start", goal="coffee", **{"input.what": "a"})
    assert again.status == 422 and "already submitted a run" in again.text
    assert visitor.send(again, "/start").status == 200
    assert sorted(run.goal for run in client.runs()) == ["coffee", "tea"]


@pytest.mark.slow
def test_an_unknown_flow_is_told(visitor: Visitor) -> None:
    page = visitor.see("/start?flow=nosuch")
    assert "Unknown flow nosuch" in page.text


def test_a_run_is_stopped_resumed_retried_and_removed_by_its_buttons(
    visitor: Visitor, client: Client
) -> None:
    run = client.submit("countdown", "x", inputs={"rounds": 1})
    stopped = visitor.send(visitor.see(f"/runs/{run.id}"), f"/runs/{run.id}/stop")
    assert (
        client.get(run.id).status is RunStatus.STOPPED
        and f"Run {run.id} is stopped" in stopped.text
    )
    goes_on = visitor.send(stopped, f"/runs/{run.id}/resume")
    assert (
        client.get(run.id).status is RunStatus.QUEUED
        and f"Run {run.id} was resumed" in goes_on.text
    )
    stopped = visitor.send(goes_on, f"/runs/{run.id}/stop")
    removed = visitor.send(stopped, f"/runs/{run.id}/delete")
    assert client.runs().runs == [] and f"Run {run.id} was deleted" in removed.text


@pytest.mark.parametrize("status", ["interrupted", "running"])
def test_a_run_can_be_looked_at_whatever_numbers_it_holds(
    visitor: Visitor, client: Client, settings: Settings, status: str
) -> None:
    before = ["Controller"] if status == "interrupted" else []
    run = client.submit(
        "countdown",
        "numbers",
        inputs={"rounds": 1},
        interrupt_before=before,
        budgets={"tokens": 5e-324, "seconds": 1e15},
    )
    store = Store(settings.redis_url or "", settings.prefix)
    huge = "1" + "0" * 400
    fields = {
        "spent": f'{{"tokens":{huge},"money":{huge},"requests":{huge},"commands.buy":{huge}}}',
        "progress": f'{{"done":{huge},"total":1,"text":"far"}}',
        "started_at": store.redis.hget(store.keys.run(run.id), "created_at"),
    }
    if status == "interrupted":
        fields |= {
            "i_kind": "budget",
            "i_data": f'{{"budget":"tokens","limit":5e-324,"spent":{huge}}}',
        }
    store.redis.hset(store.keys.run(run.id), mapping=fields)
    store.close()
    pages = [
        visitor.see(path)
        for path in (
            f"/runs/{run.id}",
            "/runs",
            "/runs?q=sort:cost",
            "/overview",
            "/inbox",
            "/stuck",
            "/fleet",
        )
    ]
    assert [page.status for page in pages] == [200] * len(pages)
    assert [
        visitor.see(f"/api/v1/{path}").status for path in (f"runs/{run.id}", "runs", "inbox")
    ] == [200, 200, 200]
    assert "1e+400 of 1" in pages[0].text
