"""The budget account: spending is never forgotten, and each limit holds up the rounds that it
concerns.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.flows.core.budgets import Budget, check_budgets
from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.json_values import canonical
from perdure.worker.domain.budget import EXHAUSTED, BudgetAccount
from perdure.worker.domain.record import Record
from perdure.worker.errors import DamagedRun

ONE = {"tokens": 100.0}


def ledger(attempt: int = 1, now: int = 10_000, **fields: Any) -> BudgetAccount:
    texts = {
        name: value if isinstance(value, str) else canonical(value)
        for name, value in fields.items()
    }
    return BudgetAccount(Record({"id": "r", "started_at": "4000", **texts}), attempt, now)


def test_an_attempt_that_never_said_what_it_used_is_charged_by_the_estimate() -> None:
    assert ledger(attempt=1, spent={"tokens": 50}).before(ONE) == {"tokens": 50}
    assert ledger(attempt=3, spent={"tokens": 50}).before(ONE) == {"tokens": 250}
    assert ledger(attempt=3, spent={"tokens": 50}, settled=1).before(ONE) == {"tokens": 150}
    assert ledger(attempt=3, settled=2).before(ONE) == {}


def test_a_commit_puts_right_what_was_estimated() -> None:
    assert ledger(spent={"tokens": 50}).fields(ONE, {"tokens": 70, "money": 0.5}, done=True) == {
        "spent": '{"money":0.5,"tokens":120}'
    }
    lost_two = ledger(attempt=3, spent={"tokens": 50}, settled=0)
    assert lost_two.fields(ONE, {"tokens": 70}, done=True) == {"spent": '{"tokens":320.0}'}


def test_an_attempt_that_ends_without_a_step_is_settled_and_not_charged_again() -> None:
    failed = ledger(attempt=2).fields(ONE, {"tokens": 7}, done=False)
    assert failed == {"spent": '{"tokens":107.0}', "settled": "2"}
    after = ledger(attempt=3, **failed)
    assert after.before(ONE) == {"tokens": 107}
    assert after.fields(ONE, {"tokens": 1}, done=True) == {
        "spent": '{"tokens":108.0}',
        "settled": "0",
    }


def test_what_a_lost_attempt_has_recorded_is_charged_once() -> None:
    lost = ledger(attempt=2, spent={"tokens": 50})._replace(recorded={"tokens": 7})
    assert lost.before({}) == {"tokens": 57}
    assert lost.fields({}, {}, done=True) == {"spent": '{"tokens":57}'}
    assert lost.fields({}, {"tokens": 3}, done=False) == {"spent": '{"tokens":60}', "settled": "2"}
    limited = ledger(2, budgets={"tokens": 57}, spent={"tokens": 50})._replace(
        recorded={"tokens": 7}
    )
    assert limited.budgets() == {"tokens": Budget(57, 57)}
    assert limited.exhausted({}, "controller") is not None


def test_a_step_that_is_over_takes_its_settled_attempts_along_though_nothing_was_spent() -> None:
    assert ledger(attempt=2, settled=1).fields({}, {}, done=True) == {"settled": "0"}


def test_a_run_that_spends_nothing_has_nothing_written() -> None:
    for attempt in (1, 4):
        for done in (True, False):
            assert ledger(attempt=attempt).fields({}, {}, done) == {}


@pytest.mark.parametrize(
    ("spent", "estimate", "role", "held"),
    [
        ({"tokens": 999}, {}, "controller", False),
        ({"tokens": 1_000}, {}, "controller", True),
        ({"tokens": 1_000}, {}, "executor", False),
        ({"tokens": 1_000}, {"tokens": 1}, "executor", True),
        ({"commands.pay": 2}, {"commands.pay": 1}, "executor", True),
        ({"commands.pay": 2}, {"commands.other": 1}, "executor", False),
        ({"commands.pay": 2}, {}, "controller", False),
        ({"commands.pay": 1}, {"commands.pay": 1}, "executor", False),
    ],
)
def test_a_limit_holds_up_the_rounds_it_concerns(
    spent: dict[str, float], estimate: dict[str, float], role: Any, held: bool
) -> None:
    limits = {"tokens": 1_000, "commands.pay": 2}
    found = ledger(budgets=limits, spent=spent).exhausted(estimate, role)
    assert (found is not None) is held
    if found is not None:
        assert found.interrupt.reason == EXHAUSTED and found.budget.limit == limits[found.name]


def test_cycles_and_seconds_are_counted_by_the_run_itself() -> None:
    run = ledger(budgets={"cycles": 3, "seconds": 5}, cycles="2", idle="2000")
    assert run.budgets() == {"cycles": Budget(3, 2), "seconds": Budget(5, 4.0)}
    assert run.exhausted({}, "controller") is None
    late = ledger(now=11_000, budgets={"seconds": 5}, idle="2000").exhausted({}, "executor")
    assert late is not None and late.interrupt.data == {
        "budget": "seconds",
        "limit": 5,
        "spent": 5.0,
    }
    assert ledger(budgets={"cycles": 2}, cycles="2").exhausted({}, "controller") is not None


def test_a_budget_is_low_from_four_fifths_on() -> None:
    assert [Budget(100, spent).is_low for spent in (79, 80, 100)] == [False, True, True]
    assert [Budget(100, spent).is_exhausted for spent in (99.9, 100)] == [False, True]


@pytest.mark.parametrize(
    "given",
    [
        {"token": 1},
        {"tokens": 0},
        {"tokens": -1},
        {"tokens": "1"},
        {"tokens": True},
        {"money": float("nan")},
        {"commands.": 1},
        {"commands": 1},
    ],
)
def test_what_is_no_budget_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(given))):
        check_budgets(given)


def test_accounts_that_do_not_read_are_damage() -> None:
    for text in ("[]", '{"tokens":"7"}', '{"tokens":true}', "no"):
        with pytest.raises(DamagedRun, match="spent"):
            ledger(spent=text).before({})


def test_lost_attempts_count_against_the_limit_and_for_the_controller() -> None:
    run = ledger(attempt=3, budgets={"tokens": 300, "money": 1}, spent={"tokens": 100})
    assert run.budgets(ONE) == {"tokens": Budget(300, 300), "money": Budget(1, 0)}
    assert run.budgets() == {"tokens": Budget(300, 100), "money": Budget(1, 0)}
    held = run.exhausted(ONE, "controller")
    assert held is not None and held.interrupt.data == {
        "budget": "tokens",
        "limit": 300,
        "spent": 300,
    }


@pytest.mark.parametrize(
    ("fields", "is_held"), [({}, False), ({"failures": 1}, True), ({"losses": 1}, True)], ids=str
)
def test_a_command_that_was_decided_on_is_held_if_it_is_tried_again_and_not_if_it_has_waited(
    fields: dict[str, int], is_held: bool
) -> None:
    run = ledger(attempt=3, budgets={"tokens": 100}, spent={"tokens": 100}, settled=2, **fields)
    assert (run.exhausted({}, "executor") is not None) is is_held


def test_what_is_spent_is_told_to_the_millionth() -> None:
    held = ledger(budgets={"money": 0.1}, spent={"money": 0.12345678}).exhausted({}, "controller")
    assert held is not None and held.interrupt.data["spent"] == 0.123457


def test_a_run_that_has_spent_settles_also_rounds_that_cost_nothing() -> None:
    assert ledger(attempt=2, spent={"tokens": 5}).fields({}, {}, done=False) == {"settled": "2"}
    assert ledger(attempt=2).fields(ONE, {}, done=False) == {
        "spent": '{"tokens":100.0}',
        "settled": "2",
    }
    assert ledger(attempt=1).fields(ONE, {}, done=False) == {"settled": "1"}


def test_the_largest_limit_is_taken_and_what_is_refused_says_what_it_counts() -> None:
    assert check_budgets({"tokens": 1, "money": 0.5, "commands.pay": 3}) == {
        "tokens": 1,
        "money": 0.5,
        "commands.pay": 3,
    }
    with pytest.raises(
        InvalidInput,
        match=r"^budgets: unknown budget 'token'; did you mean 'tokens'\?.*commands.NAME",
    ):
        check_budgets({"token": 1})
    with pytest.raises(
        InvalidInput, match=r"^add: money is 0; expected a number above 0.*US dollars"
    ):
        check_budgets({"money": 0}, "add")
    with pytest.raises(InvalidInput, match=r"commands.pay is 0; .*how often"):
        check_budgets({"commands.pay": 0})
