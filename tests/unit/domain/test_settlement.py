"""transitions: every outcome of a round has one settlement, and nothing unstorable gets through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from perdure import FatalError, Flow, InvalidFlow, RetryableError, UnstorableValue
from perdure.flows.core.outcomes import Advance, Command, End, Interrupt, Outcome, Renew, Turn
from perdure.flows.rounds.flow import Role
from perdure.worker.domain.failed_attempt import failure, quarantine
from perdure.worker.domain.record import Record
from perdure.worker.domain.settle import completed, settle
from perdure.worker.domain.settlement import GIVE_BACK, Beside, NextMessage, Settlement
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.settings import Settings
from tests.support.cases import EachCase, cases_of
from tests.support.run_records import SETTINGS, record


class Ring(Flow):
    """Two nodes; their outcomes are the test's affair."""

    name = "ring"

    @property
    def nodes(self) -> Mapping[str, Role]:
        return {"Controller": "controller", "Executor": "executor"}

    def play(self, node: str, context: Any) -> Outcome:
        raise NotImplementedError

    def exhausted(self, values: Mapping[str, Any]) -> End:
        return End(answer="not finished", output={"last": values.get("x")})


class ForkedRing(Ring):
    """A ring whose runs can be forked."""

    name = "forked-ring"

    @property
    def fork_nodes(self) -> tuple[str, ...]:
        return ("Controller",)


def settled(
    outcome: Outcome,
    at: Record | None = None,
    remembered: Mapping[str, Any] | None = None,
    settings: Settings = SETTINGS,
) -> Settlement:
    return settle(at or record(), Ring(), outcome, remembered or {}, settings)


def test_advance_names_the_next_node_and_the_message_of_the_next_step() -> None:
    got = settled(
        Advance("Executor", (Turn(Command("look", {"at": 1}), "seen"),), {"x": 1}, summary={"s": 1})
    )
    assert (got.kind, got.message) == ("next", NextMessage("Executor", epoch=2, step=5))
    assert (
        got.fields["current_node"],
        got.fields["v:x"],
        got.fields["turns"],
        got.fields["cycles"],
    ) == ("Executor", "1", "8", "1")
    assert unpack_turns("r", got.additions) == [Turn(Command("look", {"at": 1}), "seen")]
    assert json.loads(str(got.options["data"])) == {"s": 1}


def test_the_event_of_a_flow_with_forks_says_how_many_turns_were_there() -> None:
    outcome = Advance("Executor", (Turn(Command("look", {"at": 1}), "seen"),), summary={"s": 1})
    got = settle(record(), ForkedRing(), outcome, {}, SETTINGS)
    assert json.loads(str(got.options["data"])) == {"s": 1, "history": [7, 8, 0]}


@pytest.mark.parametrize(
    "outcome",
    [Advance("Executor", values={"x": [1]}), End(answer=1, output={"o": 1}, values={"x": [1]})],
)
def test_what_is_written_carries_the_digest_of_the_run_as_it_will_be(outcome: Outcome) -> None:
    at = record(**{"v:old": "1"})
    got = settled(outcome, at, {"kept": True})
    after = {**at.fields, **got.fields}
    Record(after).check()
    assert Record(after).values == {"old": 1, "x": [1], "kept": True}


def test_a_commit_writes_only_what_the_round_adds() -> None:
    at = record(**{f"v:{number}": "1" for number in range(1_000)})
    got = settled(Advance("Executor", values={"x": 1}), at)
    assert set(got.fields) == {"v:x", "turns", "cycles", "current_node", "digest"}


def test_the_outcomes_values_win_over_those_remembered() -> None:
    assert (
        settled(
            Advance("Executor", values={"x": "outcome"}), remembered={"x": "remembered", "y": 1}
        ).fields["v:x"]
        == '"outcome"'
    )


def test_a_cycle_is_counted_where_it_ends() -> None:
    assert settled(Advance("Controller", ends_cycle=True)).fields["cycles"] == "2"


def test_reaching_max_rounds_ends_the_run_completed_with_what_the_flow_says() -> None:
    got = settled(Advance("Controller", values={"x": 9}, ends_cycle=True), record(max_rounds="2"))
    assert (got.kind, got.message) == ("end", NextMessage("Controller", epoch=3, step=5)), (
        "it may be given more cycles, and go on there"
    )
    assert (got.fields["answer"], got.fields["output"]) == ('"not finished"', '{"last":9}')
    assert (got.fields["current_node"], got.fields["unfinished"]) == ("Controller", "2")


def test_max_rounds_is_looked_at_only_where_a_cycle_ends() -> None:
    assert settled(Advance("Executor"), record(max_rounds="1")).kind == "next"
    assert settled(Advance("Controller", ends_cycle=True), record(max_rounds="3")).kind == "next"


def test_the_limit_reached_exactly_at_the_end_is_success() -> None:
    got = settled(End(answer="done"), record(max_rounds="2"))
    assert (got.kind, got.fields["answer"]) == ("end", '"done"')


def test_a_pause_between_nodes_stores_the_next_node_and_the_message_of_the_next_epoch() -> None:
    got = settled(Advance("Executor"), record(interrupt_before='["Executor"]'))
    assert (got.kind, got.message) == ("pause_next", NextMessage("Executor", epoch=3, step=5))
    assert got.fields["current_node"] == "Executor"
    assert (got.fields["i_status"], got.fields["i_node"], got.fields["i_reason"], got.fields["i_kind"]) == (
        "interrupted_before", "Executor", "interrupt_before: Executor", "before",
    )  # fmt: skip


def test_a_pause_behind_a_node_stores_the_next_node_too() -> None:
    got = settled(Advance("Executor"), record(interrupt_after='["Controller"]'))
    assert (got.kind, got.fields["current_node"], got.fields["i_node"], got.fields["i_kind"]) == (
        "pause_next",
        "Executor",
        "Controller",
        "after",
    )


def test_a_run_pauses_behind_the_node_that_ends_it_and_has_its_end_committed() -> None:
    got = settled(End(answer=1), record(interrupt_after='["Controller"]'))
    assert (got.kind, got.message, got.fields["answer"], got.fields["ending"]) == (
        "pause_next",
        None,
        "1",
        "1",
    )
    assert (got.fields["i_status"], got.fields["i_reason"]) == (
        "interrupted_after",
        "interrupt_after: Controller",
    )
    assert settled(End(answer=1), record(interrupt_before='["Controller"]')).kind == "end"


def test_an_interrupt_commits_no_step_and_keeps_the_node() -> None:
    got = settled(Interrupt("may I?", {"cost": 3}, timedelta(minutes=1), "no"))
    assert (got.kind, got.message, got.additions) == (
        "pause_here",
        NextMessage("Controller", epoch=3, step=4),
        (),
    )
    assert got.fields == {
        "i_kind": "node", "i_status": "interrupted_before", "i_node": "Controller", "i_reason": "may I?",
        "i_default": '"no"', "i_data": '{"cost":3}', "i_wait": "60000",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("deadline", "wait"),
    [
        (1.5, "1500"),
        (0, "0"),
        (-3, "0"),
        (timedelta(seconds=2), "2000"),
        ("2h", "7200000"),
        (None, None),
    ],
)
def test_an_interrupts_deadline_becomes_a_wait(deadline: Any, wait: str | None) -> None:
    assert settled(Interrupt("?", deadline=deadline)).fields.get("i_wait") == wait


def test_an_interrupts_data_is_an_object_for_those_who_read_the_state() -> None:
    assert settled(Interrupt("?", data=[1, 2])).fields["i_data"] == '{"data":[1,2]}'


#: Values of Python that JSON does not give back as they are.
UNSTORABLE = {
    "nan": float("nan"),
    "inf": float("inf"),
    "bytes": b"12",
    "an object": object(),
    "half a surrogate pair": "\ud800",
    "a key that is no text": {1: 2},
}
PLACES = ["value", "turn", "summary", "answer", "output", "reason", "data", "default"]


def test_what_would_not_read_back_is_refused_wherever_it_stands(each_case: EachCase) -> None:
    def check(where: str, what: str) -> None:
        bad: Any = UNSTORABLE[what]
        outcomes: dict[str, Outcome] = {
            "value": Advance("Executor", values={"x": bad}),
            "turn": Advance("Executor", (Turn(None, bad),)),
            "summary": Advance("Executor", summary={"s": bad}),
            "answer": End(answer=bad),
            "output": End(output={"o": bad}),
            "reason": Interrupt(bad if isinstance(bad, str) else "ok", data=bad),
            "data": Interrupt("ok", data={"d": bad}),
            "default": Interrupt("ok", default=bad),
        }
        with pytest.raises(UnstorableValue):
            settled(outcomes[where])

    each_case(cases_of(PLACES, UNSTORABLE), check)


def test_a_round_that_adds_too_much_is_refused() -> None:
    small = Settings(redis_url=None, max_addition_bytes=1_000)
    settled(Advance("Executor", values={"x": "a" * 500}), settings=small)
    for outcome in (
        Advance("Executor", values={"x": "a" * 1_001}),
        Advance("Executor", (Turn(None, "a" * 1_001),)),
    ):
        with pytest.raises(UnstorableValue, match="max_addition_bytes"):
            settled(outcome, settings=small)


@pytest.mark.parametrize(
    "outcome",
    [
        End(answer="a" * 1_001),
        End(output={"o": "a" * 1_001}),
        Interrupt("?", data="a" * 1_001),
        Advance("Executor", summary={"s": "a" * 1_001}),
    ],
)
def test_an_answer_a_question_or_a_summary_that_adds_too_much_is_refused(outcome: Outcome) -> None:
    """One round's addition is limited, under any name."""
    with pytest.raises(UnstorableValue, match="max_addition_bytes"):
        settled(outcome, settings=Settings(redis_url=None, max_addition_bytes=1_000))


def test_values_that_stay_do_not_count_as_added() -> None:
    small = Settings(redis_url=None, max_addition_bytes=1_000)
    settled(
        Advance("Executor", values={"x": "a" * 5_000}),
        record(**{"v:x": '"' + "a" * 5_000 + '"'}),
        settings=small,
    )


def test_values_over_the_states_limit_are_refused() -> None:
    small = Settings(redis_url=None, max_state_bytes=1_000)
    at = record(**{"v:old": '"' + "a" * 900 + '"'})
    with pytest.raises(UnstorableValue, match="max_state_bytes"):
        settled(Advance("Executor", values={"x": "a" * 200}), at, settings=small)
    settled(Advance("Executor", values={"old": "a" * 200}), at, settings=small)


def test_sizes_are_counted_in_bytes() -> None:
    with pytest.raises(UnstorableValue):
        settled(
            Advance("Executor", values={"x": "é" * 600}),
            settings=Settings(redis_url=None, max_addition_bytes=1_000),
        )


def test_a_next_node_that_the_flow_does_not_have_is_fatal_and_names_those_it_has() -> None:
    with pytest.raises(FatalError, match=r"Nowhere.*Controller, Executor"):
        settled(Advance("Nowhere"))


def test_an_ordinary_failure_waits_with_backoff() -> None:
    got = failure(record(failures="1"), ValueError("boom"), SETTINGS, jitter=0.0)
    assert (got.kind, got.options["delay"], got.options["max_failures"]) == (
        "failed",
        1_000,
        SETTINGS.max_attempts,
    )
    for part in ("run r", "step 4", "node Controller", "ValueError: boom"):
        assert part in str(got.options["error"])


def test_a_retryable_error_may_say_when() -> None:
    assert (
        failure(record(), RetryableError("busy", retry_after=7), SETTINGS, 0.5).options["delay"]
        == 7_000
    )
    assert (
        failure(record(), RetryableError("busy", retry_after=-7), SETTINGS, 0.5).options["delay"]
        == 0
    )


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_a_retry_after_that_is_no_time_does_not_break_the_failure(seconds: float) -> None:
    got = failure(record(), RetryableError("busy", retry_after=seconds), SETTINGS, 0.5)
    assert got.kind == "failed" and int(got.options["delay"]) >= 0


def test_a_fatal_error_is_not_tried_again() -> None:
    assert failure(record(), FatalError("never"), SETTINGS, 0.5).options["fatal"] == 1
    assert failure(record(), InvalidFlow("never"), SETTINGS, 0.5).options["fatal"] == 1
    assert failure(record(), UnstorableValue("NaN"), SETTINGS, 0.5).options["fatal"] == 1
    assert "fatal" not in failure(record(), RetryableError("busy"), SETTINGS, 0.5).options


def test_an_error_text_of_any_kind_can_be_stored() -> None:
    text = failure(record(), ValueError("\ud800 \x00 é"), SETTINGS, 0.5).options["error"]
    str(text).encode("utf-8")
    str(quarantine(ValueError("\udcff")).options["error"]).encode("utf-8")


def test_damage_and_giving_back_have_settlements_of_their_own() -> None:
    assert quarantine(ValueError("bad")).kind == "damaged"
    assert Settlement("give_back") == GIVE_BACK


NAN = float("nan")


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        (Advance("Executor", values={"x": NAN}), "the value 'x' is nan"),
        (Advance("Executor", (Turn(None, NAN),)), "the observation of node Controller is nan"),
        (Advance("Executor", summary={"s": NAN}), "the summary at s is nan"),
        (End(answer=NAN), "the answer is nan"),
        (End(output={"o": NAN}), "the output at o is nan"),
        (Interrupt("\ud800"), "the interrupt's reason holds a lone surrogate"),
        (Interrupt("q", default=NAN), "the interrupt's default is nan"),
        (Interrupt("q", data={"d": NAN}), "the interrupt's data at d is nan"),
    ],
)
def test_what_cannot_be_stored_is_told_by_its_name(outcome: Outcome, what: str) -> None:
    with pytest.raises(UnstorableValue) as refused:
        settled(outcome)
    assert str(refused.value).startswith(what)


def test_an_end_carries_its_summary() -> None:
    assert settled(End(answer=1, summary={"s": 1})).options["data"] == '{"s":1}'


LONGEST = 10 * 365.25 * 86_400


@pytest.mark.parametrize("seconds", [float("inf"), NAN, LONGEST + 1])
def test_a_deadline_that_is_no_time_is_refused_with_what_to_do(seconds: float) -> None:
    with pytest.raises(UnstorableValue) as refused:
        settled(Interrupt("q", deadline=seconds))
    assert (
        str(refused.value)
        == f"the interrupt's deadline is {seconds!r} seconds; leave it out if there is no time limit for the answer"
    )


def test_a_deadline_that_is_no_duration_is_refused() -> None:
    with pytest.raises(UnstorableValue, match="'soon' is not a duration"):
        settled(Interrupt("q", deadline="soon"))


def test_the_longest_deadline_is_taken() -> None:
    assert settled(Interrupt("q", deadline=LONGEST)).fields["i_wait"] == str(round(LONGEST * 1000))


def test_one_byte_decides_what_a_round_may_add() -> None:
    outcome = Advance("Executor", values={"x": "a" * 500})
    taken = settled(outcome)
    held = record().fields
    new = [text for name, text in taken.fields.items() if held.get(name) != text]
    added = sum(len(text) for text in [*new, str(taken.options["data"])])
    settled(outcome, settings=SETTINGS.model_copy(update={"max_addition_bytes": added}))
    with pytest.raises(UnstorableValue) as refused:
        settled(outcome, settings=SETTINGS.model_copy(update={"max_addition_bytes": added - 1}))
    assert str(refused.value) == (
        f"step 4 would add {added} bytes to the run; the limit for one round is {added - 1} (max_addition_bytes). "
        "Return less, or a reference to it (context.attach keeps a file and returns one)"
    )


def test_one_byte_decides_what_a_run_may_hold() -> None:
    outcome = Advance("Executor", values={"x": "a" * 500})
    settled(outcome, settings=SETTINGS.model_copy(update={"max_state_bytes": 502}))
    with pytest.raises(UnstorableValue) as refused:
        settled(outcome, settings=SETTINGS.model_copy(update={"max_state_bytes": 501}))
    assert str(refused.value) == (
        "the named values would take 502 bytes; the limit is 501 (max_state_bytes). Store large things elsewhere and remember a reference"
    )


def test_an_interrupt_writes_as_many_bytes_as_it_may() -> None:
    """It has no summary, which therefore costs nothing."""
    fields = settled(Interrupt("q")).fields
    added = sum(len(text) for text in fields.values())
    assert (
        settled(
            Interrupt("q"), settings=SETTINGS.model_copy(update={"max_addition_bytes": added})
        ).kind
        == "pause_here"
    )


WHERE = "run r, step 4"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("oh no"), f"{WHERE}, node Controller: ValueError: oh no"),
        (RetryableError("oh no"), f"{WHERE}, node Controller: oh no"),
        (FatalError("oh no"), f"{WHERE}, node Controller: oh no"),
        (InvalidFlow("oh no"), f"{WHERE}, node Controller: oh no"),
        (FatalError(f"{WHERE}: oh no"), f"{WHERE}: oh no"),
    ],
)
def test_an_error_is_told_with_its_place_once(error: Exception, told: str) -> None:
    assert failure(record(), error, SETTINGS, 0.0).options["error"] == told


def test_a_fatal_error_is_a_failure_without_a_wait() -> None:
    got = failure(record(), FatalError("oh no"), SETTINGS, 0.0)
    assert got.kind == "failed"
    assert dict(got.options) == {
        "error": f"{WHERE}, node Controller: oh no",
        "max_failures": SETTINGS.max_attempts,
        "fatal": 1,
        "delay": 0,
    }


@pytest.mark.parametrize(
    ("length", "told"), [(4_000, "a" * 4_000), (4_001, "a" * 4_000 + " ... (4001 characters)")]
)
def test_an_error_text_is_cut_where_it_is_too_long(length: int, told: str) -> None:
    assert quarantine(ValueError("a" * length)) == Settlement(
        "damaged", options={"error": told}, cause="ValueError"
    )


class Bounded(Ring):
    keep_turns = 3
    keep_events = 50


def bounded(outcome: Outcome, **fields: str) -> Settlement:
    return settle(record(**fields), Bounded(), outcome, {}, SETTINGS)


@pytest.mark.parametrize(
    ("before", "new", "forgotten", "forget", "written"),
    [
        ("2", 1, None, None, 1),  # turns before, added; forgotten, of the stored, written
        ("3", 1, "1", 1, 1),
        ("7", 1, "5", 5, 1),
        ("7", 0, "4", 4, 0),
        ("1", 5, "3", 1, 3),
    ],
)
def test_a_bounded_flow_drops_the_oldest_turns(
    before: str, new: int, forgotten: str | None, forget: int | None, written: int
) -> None:
    turns = tuple(Turn(None, number) for number in range(new))
    for outcome in (Advance("Executor", turns), End(1, turns=turns)):
        got = bounded(outcome, turns=before)
        assert (got.fields.get("forgotten"), got.options.get("forget")) == (forgotten, forget)
        assert len(got.additions) == written and got.fields["turns"] == str(int(before) + new)
        assert got.fields.get("schema") == (None if forgotten is None else "5")
        assert (got.options["keep_events"], got.fields["keep_events"]) == (50, "50")
    later = bounded(Advance("Executor", turns), turns=before, forgotten="1")
    assert later.options.get("forget", 0) == max(0, (forget or 0) - 1)


def test_only_a_round_that_is_done_bounds_the_history() -> None:
    got = bounded(Interrupt("why?"))
    assert not {"forget", "keep_events"} & set(got.options) and "keep_events" not in got.fields


@pytest.mark.parametrize(
    "renew",
    [
        Renew(),
        Renew(values={"x": 2}, inputs={"n": 1}),
        Renew(values={}, turns=(Turn(None, 1),), keep_turns=1),
        Renew(keep_turns=5, turns=(Turn(None, 1),)),
    ],
)
@pytest.mark.parametrize("spent", [False, True])
def test_what_a_renewal_writes_carries_the_digest_of_the_run_as_it_will_be(
    renew: Renew, spent: bool
) -> None:
    at = record(**{"v:old": "1", "v:_own": "2", "cycles": "4", "earlier_cycles": "3"})
    got = settled(renew, at, {"kept": True})
    if spent:
        got = completed(at, got, Beside(accounts={"spent": '{"tokens":5}'}))
    before = {name: text for name, text in at.fields.items() if not name.startswith("v:")}
    after = Record({**before, **got.fields})
    after.check()
    assert after.values == (
        {"old": 1, "kept": True} if renew.values is None else dict(renew.values)
    )
    assert after.inputs == (renew.inputs or {}) and got.message == NextMessage("Controller", 2, 5)
    names = ("generation", "cycles", "earlier_cycles", "schema")
    assert [after.fields[name] for name in names] == ["1", "0", "7", "5"]
    stored = after.turns - after.forgotten
    assert stored == 7 - got.options["forget"] + len(got.additions) == renew.keep_turns


def test_a_renewal_is_not_too_large_because_of_the_values_that_it_drops() -> None:
    big = json.dumps("x" * (SETTINGS.max_state_bytes - 10))
    got = settled(Renew(values={"y": "y" * 100_000}), record(**{"v:big": big}))
    assert got.fields["v:y"]
    with pytest.raises(UnstorableValue, match="max_state_bytes"):
        settled(Advance("Executor", values={"y": "y" * 100_000}), record(**{"v:big": big}))
