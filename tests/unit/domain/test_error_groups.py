"""The kind of an error: the common part of equal failures."""

from __future__ import annotations

from perdure.worker.domain.error_groups import KIND_CHARACTERS, kind_of
from tests.support.cases import EachCase, cases_of

#: Kind, and errors that are of it.
KINDS = {
    "TimeoutError": (
        "run a1, step 3, node Executor: TimeoutError: slow",
        "run b2, step 44, node Executor: TimeoutError: after 30 s\nat line 2",
        "run a1, step 3, node Executor: TimeoutError: ",
        "TimeoutError",
    ),
    "CardDeclined": (
        "run a1, step 3, node Executor: CardDeclined: card of ann",
        "run a1, step 3: the workflow raised CardDeclined: card of bob",
        "run a1, step 3: step charge failed: CardDeclined: card of cyd. Not idempotent: charge",
        "run a1, step 3: step charge-2 failed: CardDeclined",
        "run a1, step 3: step charge failed: CardDeclined, and 1 more: refund",
        "run a1, step 3: command 'charge' failed: CardDeclined: card. It is not idempotent, so",
        "run a1, step 3: command 'charge' failed: CardDeclined: . It is not idempotent, so",
        "run a1, step 3: the node 'pay' of the graph failed: CardDeclined: card of dan",
    ),
    "gaierror": (
        "run a1, step 3, node N: gaierror: [Errno -2] Name or service not known",
        "run b2, step 4: step look_up failed: gaierror: [Errno -3] Temporary failure",
    ),
    "error": ("run a1, step 3, node N: error: unpack requires a buffer of 4 bytes",),
    "_Busy": ("run a1, step 3, node N: _Busy: later", "run a1, step 3: the workflow raised _Busy"),
    "step … of the recipe failed: too hot": (
        "run a1, step 3, node N: step 3 of the recipe failed: too hot",
    ),
    "the till is on fire": (
        "run a1, step 3, node Executor: the till is on fire",
        "run a1, step 3: the till is on fire",
    ),
    "order … of … is gone": (
        "run a1, step 3, node N: order 17 of 'ann' is gone",
        'run a1, step 3, node N: order 4f2a-9 of "bob" is gone',
    ),
    "workers died or went silent under step … (node Executor) … times in a row; last": (
        "workers died or went silent under step 3 (node Executor) 4 times in a row; last one: w@1",
        "workers died or went silent under step 12 (node Executor) 6 times in a row; last one: w@2",
    ),
    "boom": ("boom", "  boom \nmore"),
    "(no text)": ("", "\n", "run a1, step 3, node Executor: "),
}


def test_equal_failures_are_of_one_kind_whatever_run_and_numbers_they_name(
    each_case: EachCase,
) -> None:
    def check(kind: str) -> None:
        assert {kind_of(error) for error in KINDS[kind]} == {kind}

    each_case(cases_of(KINDS), check)


def test_a_kind_is_short_and_its_own_kind() -> None:
    kind = kind_of(f"run r, step 1, node N: {'of no use ' * 50}")
    assert len(kind) <= KIND_CHARACTERS and kind_of(kind) == kind
