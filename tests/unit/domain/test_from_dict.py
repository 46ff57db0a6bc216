"""from_dict reads the output of to_dict back equal, through JSON text: a client on a wire gets the
sent object.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from perdure import (
    Event,
    ExecutionState,
    ExecutionStatus,
    Finding,
    Inbox,
    Page,
    PendingInterrupt,
    Run,
    RunStatus,
    StopReceipt,
    Verdict,
    VerdictCode,
)
from perdure.worker.domain.document import Document
from perdure.worker.domain.run import Done
from perdure.worker.domain.run_details import RunDetails
from perdure.worker.domain.verdict import Level

texts = st.text(max_size=8)
maybe = st.none() | texts
times = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  the bounds are naive
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
mappings = st.dictionaries(texts, values, max_size=3)
states = st.builds(
    ExecutionState,
    current_node=texts,
    step=st.integers(0, 10**6),
    status=st.sampled_from(ExecutionStatus),
    thread_id=maybe,
    internal_data=mappings,
)
COUNTS = ("epoch", "attempt", "failures", "losses", "cycles", "turns")
# Hypothesis also takes texts from the code under test, and the schema names a type for each field
# that RunDetails declares.
undeclared = st.dictionaries(
    texts.filter(lambda name: name not in RunDetails.__annotations__), values, max_size=3
)
details = st.builds(
    lambda count, more: {**dict.fromkeys(COUNTS, count), **more}, st.integers(0, 9), undeclared
)
runs = st.builds(
    Run,
    id=texts, flow=texts, goal=texts, inputs=mappings, status=st.sampled_from(RunStatus), state=states, answer=values, output=mappings,
    error=maybe, created_at=times, updated_at=times, labels=st.dictionaries(texts, texts, max_size=2), phase=texts, details=details,
)  # fmt: skip
waitings = st.builds(
    PendingInterrupt,
    id=texts, run_id=texts, flow=texts, goal=texts, since=times, kind=st.sampled_from(["approval", "in_doubt", "question", "pause"]),
    question=texts, data=st.none() | mappings, deadline=st.none() | times, default=values, command=maybe, args=mappings, digest=maybe,
    key=maybe, began=st.none() | times, worker=maybe,
)  # fmt: skip
receipts = st.builds(
    StopReceipt,
    run_id=texts, known=st.booleans(), running=st.booleans(), why_not=maybe, stopped=st.booleans(), status=maybe,
    mode=st.sampled_from(["graceful", "now"]), requested_by=maybe, reason=maybe, asked_at=st.none() | times, seen_at=st.none() | times,
    stopped_at=st.none() | times, step=st.none() | st.integers(0, 99), in_doubt=maybe,
)  # fmt: skip
KINDS = {
    Run: runs,
    PendingInterrupt: waitings,
    StopReceipt: receipts,
    Event: st.builds(
        Event, texts, texts, times, st.integers(0, 99), st.integers(0, 9), texts, mappings
    ),
    Verdict: st.builds(Verdict, st.sampled_from(VerdictCode), texts, st.none() | times, mappings),
    Finding: st.builds(Finding, texts, st.sampled_from(Level), texts, texts),
    Done: st.builds(Done, texts, maybe),
    Page: st.builds(
        Page, st.lists(runs, max_size=2), maybe, st.lists(texts, max_size=2).map(tuple)
    ),
    Inbox: st.builds(
        Inbox, st.lists(waitings, max_size=2), maybe, st.lists(texts, max_size=2).map(tuple)
    ),
}
#: Kinds whose schema is made from the class itself.
DESCRIBED = [kind for kind in KINDS if issubclass(kind, Document)]
#: Members that are derived, not read.
UNREAD = ("finished", "how")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_reads_back_equal(kind: type) -> None:
    @hypothesis_settings(max_examples=25)
    @given(KINDS[kind])
    def law(told: object) -> None:
        assert kind.from_dict(json.loads(json.dumps(told.to_dict()))) == told  # type: ignore[attr-defined]

    law()


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.__name__)
def test_what_to_dict_returns_fits_the_schema_of_the_http_api(kind: type) -> None:
    from jsonschema import Draft202012Validator

    schema = Draft202012Validator(TypeAdapter(kind).json_schema(mode="serialization"))

    @hypothesis_settings(max_examples=25)
    @given(KINDS[kind])
    def law(written: Document) -> None:
        schema.validate(json.loads(json.dumps(written.to_dict())))

    law()


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.__name__)
def test_a_missing_field_is_a_key_error_and_an_unknown_one_is_ignored(kind: type) -> None:
    @hypothesis_settings(max_examples=2)
    @given(KINDS[kind])
    def law(written: Document) -> None:
        data = written.to_dict()
        assert type(written).from_dict({**data, "a later release's": 1}) == written
        for name in set(data) - {*written._later, *UNREAD}:
            with pytest.raises(KeyError, match=name):
                type(written).from_dict({key: data[key] for key in data if key != name})

    law()


def test_texts_that_are_not_unicode_are_read_and_written() -> None:
    broken = Finding("a", Level.OK, "\udc80")
    assert Finding.from_dict(broken.to_dict()) == broken
