"""A query line: how it is read, written again, and which runs it describes."""

from __future__ import annotations

import json
import math

import pytest

from perdure.worker.domain.query_line import added_term, line_of, quoted, terms_of, with_term
from perdure.worker.domain.run import RunStatus
from perdure.worker.domain.run_query import RunQuery
from perdure.worker.errors import InvalidInput
from tests.support.cases import EachCase, cases_of

DAY = 86_400_000
NOW = 100 * DAY
RUN = {
    "id": "ab12", "phase": "errored", "flow": "react", "current_node": "Executor", "goal": "Book the Invoice", "submitted_by": "ann",
    "labels": json.dumps({"team": "a b", "x": 'q"u', "a=b": "c=d"}), "error": "TimeoutError: slow", "thread_id": "t", "forked": json.dumps({"run": "ef34", "step": 2, "origins": [["ef34", 1]]}),
    "inputs": json.dumps({"city": "New York", "days": 3, "dry": True, "by": "3", "of": {"a": [1]}}),
    "created_at": str(NOW - DAY), "ended_at": str(NOW - DAY + 600_000), "spent": json.dumps({"money": 0.25}), "t:money": "500000",
}  # fmt: skip
FITS = [
    "", "status:errored", "status:errored,completed", "status:queued status:errored", "-status:queued", "flow:react", "flow:a,react",
    "label:team", "label:a=b=c=d", "label:a=b", "-label:a", "-label:a=b=c", 'label:team="a b"', 'label:"x=q\\"u"', "by:ann", "goal:invoice", "input:city", 'input:city="New York"', "input:days=3", "input:days=3.0", "input:dry=true", "input:by=3", 'input:"of={\\"a\\": [1]}"', "-input:city=Oslo", '"the invoice"', "book invoice", "ab1", "id:ab", "error:timeout", "thread:t", "forked:ef34",
    "submitted:<2d", "submitted:>1h", "submitted:1970-04-10", "submitted:>1970-04-01", "ended:<1d", "ended:>20h", "duration:>9m",
    "duration:<11m", "cost:>0.7", "cost:<0.8", "-cost:>1", "node:Executor", "node:a node:Executor", "kind:TimeoutError", "-kind:timeouterror", "STATUS:errored", "children:yes sort:cost",
]  # fmt: skip
FITS_NOT = [
    "status:queued", "-status:errored", "flow:reac", "-flow:react", "label:none", "label:team=a", "by:bob", "invoices", "input:town", "node:Exec", "kind:Timeout", "-kind:TimeoutError", "input:city=New", "input:days=4", "input:dry=1", "input:days=three", "input:of=1", "-input:city", "id:b", "-ab1", "error:none",
    "submitted:<1h", "submitted:>2d", "ended:<1h", "ended:1970-04-01", "duration:>1h", "cost:<0.7", "status:errored by:bob", "flow:react invoices", "forked:ef3",
]  # fmt: skip
WRONG = [
    "team:a", "status:bogus", "status:", "submitted:1d", "submitted:<soon", "duration:10m", "cost:>much", "sort:size", "-sort:cost", '"open', 'a"b',
    "children:maybe", "x" * 2001, "a " * 51, "cost:>nan",
]  # fmt: skip


def test_a_run_is_described(each_case: EachCase) -> None:
    def check(line: str) -> None:
        assert RunQuery.of(line).fits(RUN, NOW)

    each_case(cases_of(FITS), check)


def test_a_run_is_not_described(each_case: EachCase) -> None:
    def check(line: str) -> None:
        assert not RunQuery.of(line).fits(RUN, NOW)

    each_case(cases_of(FITS_NOT), check)


def test_a_line_that_cannot_be_read_says_what_was_expected(each_case: EachCase) -> None:
    def check(line: str) -> None:
        with pytest.raises(InvalidInput, match="query: "):
            RunQuery.of(line)

    each_case(cases_of(WRONG), check)


def test_a_line_is_written_as_it_was_read(each_case: EachCase) -> None:
    def check(line: str) -> None:
        assert terms_of(line_of(terms_of(line))) == terms_of(line)

    each_case(cases_of([*FITS, *FITS_NOT]), check)


def test_a_quoted_text_is_read_back_whatever_it_holds() -> None:
    text = 'a "b" \\ c:d -e'
    (term,) = terms_of(quoted(text))
    assert (term.key, term.text) == ("", text)


def test_terms_are_replaced_added_and_removed() -> None:
    assert with_term("a status:errored b", "status", "queued") == "a b status:queued"
    assert with_term("a status:errored", "status", None) == "a"
    assert added_term("a", "label", "x=a b") == 'a label:"x=a b"'
    assert added_term("label:x=1", "label", "x=1") == "label:x=1"


def test_no_index_is_read_that_holds_no_matching_run() -> None:
    assert RunQuery.of("ended:<1d").statuses == {each for each in RunStatus if each.ended}
    assert RunQuery.of("status:errored status:queued").statuses == {
        RunStatus.ERRORED,
        RunStatus.QUEUED,
    }


def test_only_times_are_read_that_hold_matching_runs() -> None:
    submitted, ended = RunQuery.of("submitted:<2d submitted:>1d"), RunQuery.of("ended:<2d")
    assert submitted.times("live", NOW) == (NOW - 2 * DAY, NOW - DAY)
    assert submitted.times("completed", NOW) == (NOW - 2 * DAY, math.inf)
    assert ended.times("errored:children", NOW) == (NOW - 2 * DAY, math.inf)
    assert ended.times("stopped", NOW) == (-math.inf, math.inf)
