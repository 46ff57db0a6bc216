"""ExecutionState: the contract of the class alone, and that nothing is lost on any way out and
back.
"""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.json_values import canonical
from perdure.worker.domain.execution_state import (
    END,
    FIELDS,
    START,
    ExecutionState,
    ExecutionStatus,
    StopRequestStatus,
    is_plain,
)

FULL = {
    "current_node": "Executor",
    "step": 7,
    "status": "interrupted_after",
    "interrupted_node": "Controller",
    "interrupt_reason": "interrupt_after: Controller",
    "interrupt_data": {"asked": ["a", 1]},
    "thread_id": "thread-1",
    "stop_current_execution": "stopped",
    "internal_data": {"error": "disk full", "tries": 2},
}


def test_fields_their_order_and_defaults_are_the_contracts() -> None:
    state = ExecutionState(current_node=START)
    assert dict(state) == {
        "current_node": "__start__",
        "step": 0,
        "status": ExecutionStatus.RUNNING,
        "interrupted_node": None,
        "interrupt_reason": None,
        "interrupt_data": None,
        "thread_id": None,
        "stop_current_execution": StopRequestStatus.NONE,
        "internal_data": {},
    }
    assert list(ExecutionState.model_fields) == list(FULL)
    assert END == "__end__"


def test_enum_strings_are_the_contracts() -> None:
    assert [status.value for status in ExecutionStatus] == [
        "running",
        "interrupted_before",
        "interrupted_after",
        "completed",
        "error",
    ]
    assert [status.value for status in StopRequestStatus] == ["none", "stop_requested", "stopped"]
    assert not issubclass(ExecutionStatus, str) and issubclass(ExecutionStatus, Enum)


def test_two_states_never_share_their_internal_data() -> None:
    one, other = ExecutionState(current_node="a"), ExecutionState(current_node="a")
    one.internal_data["error"] = "only mine"
    assert other.internal_data == {}


def test_current_node_must_be_given() -> None:
    with pytest.raises(ValidationError, match="current_node"):
        ExecutionState()  # type: ignore[call-arg]


def test_a_json_dump_holds_strings_for_the_enums() -> None:
    state = ExecutionState.from_dict(FULL)
    assert state.to_dict() == FULL
    assert json.loads(state.model_dump_json()) == FULL


@pytest.mark.parametrize("mode", ["python", "json"])
def test_dump_and_from_dict_keep_the_error_and_the_stop_request(mode: str) -> None:
    state = ExecutionState(
        current_node="Executor", stop_current_execution=StopRequestStatus.STOP_REQUESTED
    )
    state.error("disk full")
    back = ExecutionState.from_dict(state.model_dump(mode=mode))
    assert back == state
    assert back.is_stopped_requested() and back.internal_data == {"error": "disk full"}


def test_from_dict_reads_both_names_of_the_internal_data_and_merges_them() -> None:
    assert ExecutionState.from_dict(
        {"current_node": "a", "_internal_data": {"old": 1}}
    ).internal_data == {"old": 1}
    assert ExecutionState.from_dict(
        {"current_node": "a", "internal_data": {"new": 1}}
    ).internal_data == {"new": 1}
    both = {
        "current_node": "a",
        "_internal_data": {"old": 1, "x": 1},
        "internal_data": {"new": 1, "x": 2},
    }
    assert ExecutionState.from_dict(both).internal_data == {"old": 1, "new": 1, "x": 2}


def test_from_dict_takes_the_defaults_for_what_is_absent_and_ignores_what_is_unknown() -> None:
    assert ExecutionState.from_dict({"current_node": "a", "is_running": True}) == ExecutionState(
        current_node="a"
    )


def test_from_dict_without_current_node_raises_key_error() -> None:
    with pytest.raises(KeyError, match="current_node"):
        ExecutionState.from_dict({"step": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("current_node", None),
        ("step", -1),
        ("step", "many"),
        ("step", None),
        ("status", "garbage"),
        ("status", None),
        ("stop_current_execution", "maybe"),
        ("interrupt_data", ["no", "object"]),
        ("internal_data", None),
        ("_internal_data", [1]),
    ],
)
def test_from_dict_with_a_bad_value_raises_value_error_naming_the_field(
    name: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=name):
        ExecutionState.from_dict({**FULL, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "garbage"),
        ("step", -1),
        ("step", None),
        ("current_node", None),
        ("interrupted_node", 3),
        ("interrupt_data", "text"),
        ("stop_current_execution", "running"),
        ("internal_data", None),
    ],
)
def test_an_assignment_of_garbage_is_refused_and_changes_nothing(name: str, value: Any) -> None:
    state = ExecutionState.from_dict(FULL)
    with pytest.raises(ValidationError, match=name):
        setattr(state, name, value)
    assert state.to_dict() == FULL


def test_an_assignment_is_validated_by_itself_whatever_the_other_fields_say() -> None:
    state = ExecutionState(current_node="a")
    state.status = "completed"  # type: ignore[assignment]
    assert state.status is ExecutionStatus.COMPLETED
    state.interrupted_node = "a"
    state.stop_current_execution = StopRequestStatus.STOPPED
    state.current_node = END
    assert state.step == 0


def test_set_interrupt_sets_all_four_and_clear_interrupt_runs_on() -> None:
    state = ExecutionState(current_node="Executor", step=3)
    state.set_interrupt(
        "Executor",
        "interrupt_before: Executor",
        ExecutionStatus.INTERRUPTED_BEFORE,
        {"why": "asked"},
    )
    assert state.is_interrupted() and not state.is_running()
    assert (state.interrupted_node, state.interrupt_reason) == (
        "Executor",
        "interrupt_before: Executor",
    )
    assert state.interrupt_data == {"why": "asked"}
    state.clear_interrupt()
    assert state == ExecutionState(current_node="Executor", step=3)


def test_set_interrupt_takes_down_the_data_of_the_interrupt_before() -> None:
    state = ExecutionState.from_dict(FULL)
    state.set_interrupt("Executor", "again", ExecutionStatus.INTERRUPTED_AFTER)
    assert state.interrupt_data is None


def test_a_refused_set_interrupt_changes_nothing() -> None:
    state = ExecutionState.from_dict(FULL)
    with pytest.raises(ValidationError, match="status"):
        state.set_interrupt("Executor", "again", "garbage")  # type: ignore[arg-type]
    assert state.to_dict() == FULL


@pytest.mark.parametrize("ended", [ExecutionStatus.COMPLETED, ExecutionStatus.ERROR])
def test_clear_interrupt_does_not_revive_a_run_that_has_ended(ended: ExecutionStatus) -> None:
    state = ExecutionState.from_dict({**FULL, "status": ended})
    state.clear_interrupt()
    assert state.status is ended and not state.is_running()
    assert (state.interrupted_node, state.interrupt_reason, state.interrupt_data) == (
        None,
        None,
        None,
    )


def test_clear_interrupt_leaves_the_stop_request_alone() -> None:
    state = ExecutionState.from_dict({**FULL, "stop_current_execution": "stop_requested"})
    state.clear_interrupt()
    assert state.is_running() and state.is_stopped_requested()


@pytest.mark.parametrize("asked", StopRequestStatus)
def test_a_stop_is_requested_only_until_it_has_taken_hold(asked: StopRequestStatus) -> None:
    state = ExecutionState(current_node="a", stop_current_execution=asked)
    assert state.is_stopped_requested() is (asked is StopRequestStatus.STOP_REQUESTED)


@pytest.mark.parametrize("status", ExecutionStatus)
def test_running_and_interrupted_follow_the_status(status: ExecutionStatus) -> None:
    state = ExecutionState(current_node="a", status=status)
    assert state.is_running() is (status is ExecutionStatus.RUNNING)
    assert state.is_interrupted() is status.value.startswith("interrupted")


def test_steps_and_nodes_move_on() -> None:
    state = ExecutionState(current_node="Controller")
    state.advance_step()
    state.advance_step()
    state.set_current_node("Executor")
    assert (state.step, state.current_node) == (2, "Executor")


def test_an_error_is_kept_with_its_text_and_a_later_success_takes_it_out_of_the_state() -> None:
    state = ExecutionState(current_node="a", internal_data={"kept": 1})
    state.error("disk full")
    assert (state.status, state.internal_data) == (
        ExecutionStatus.ERROR,
        {"kept": 1, "error": "disk full"},
    )
    state.complete()
    assert (state.status, state.internal_data) == (ExecutionStatus.COMPLETED, {"kept": 1})


def test_the_hash_has_one_field_for_each_of_the_states_and_one_for_the_error() -> None:
    fields = ExecutionState.from_dict(FULL).to_fields()
    assert fields == {
        **{name: value for name, value in FULL.items() if isinstance(value, str)},
        "step": "7",
        "interrupt_data": '{"asked":["a",1]}',
        "internal_data": '{"tries":2}',
        "error": "disk full",
    }
    assert set(fields) == set(FIELDS)


def test_none_is_the_absent_field_and_empty_text_is_not_none() -> None:
    absent = ExecutionState(current_node="a").to_fields()
    assert set(absent) == {
        "current_node",
        "step",
        "status",
        "stop_current_execution",
        "internal_data",
    }
    assert ExecutionState.from_fields(absent).thread_id is None
    empty = ExecutionState(current_node="", thread_id="", interrupt_reason="", interrupt_data={})
    assert ExecutionState.from_fields(empty.to_fields()) == empty


def test_an_error_that_a_script_wrote_is_read_over_the_one_in_the_internal_data() -> None:
    fields = ExecutionState(current_node="a").to_fields()
    assert ExecutionState.from_fields({**fields, "error": "the lease was lost"}).internal_data == {
        "error": "the lease was lost"
    }
    fields["internal_data"] = '{"error":"old","kept":1}'
    assert ExecutionState.from_fields({**fields, "error": ""}).internal_data == {
        "error": "",
        "kept": 1,
    }


def test_an_error_that_is_not_text_stays_in_the_internal_data() -> None:
    state = ExecutionState(current_node="a", internal_data={"error": {"code": 3}})
    assert "error" not in state.to_fields()
    assert ExecutionState.from_fields(state.to_fields()) == state


@pytest.mark.parametrize(
    "name", ["current_node", "step", "status", "stop_current_execution", "internal_data"]
)
def test_a_hash_that_lost_a_field_is_refused_naming_it(name: str) -> None:
    fields = ExecutionState.from_dict(FULL).to_fields()
    del fields[name]
    with pytest.raises(ValueError, match=f"{name}: expected a value, got nothing"):
        ExecutionState.from_fields(fields)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step", "-1"),
        ("step", "07"),
        ("step", " 7"),
        ("step", "7\n"),
        ("step", "7.0"),
        ("step", "٣"),
        ("step", ""),
        ("step", "9" * 5000),
        ("status", "garbage"),
        ("status", ""),
        ("stop_current_execution", "yes"),
        ("interrupt_data", "[]"),
        ("interrupt_data", "null"),
        ("internal_data", ""),
        ("internal_data", '{"cut": '),
        ("internal_data", '{"a":NaN}'),
        ("internal_data", '{"a":' + "9" * 5000 + "}"),
        ("internal_data", '{"a":' + "[" * 300 + "]" * 300 + "}"),
        ("internal_data", "[" * 100_000),
    ],
    ids=lambda value: value[:12],
)
def test_a_damaged_field_is_refused_naming_it(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        ExecutionState.from_fields({**ExecutionState.from_dict(FULL).to_fields(), name: text})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("internal_data", {"a": math.nan}),
        ("internal_data", {"error": "\ud800"}),
        ("current_node", "\ud800"),
        ("interrupt_data", {"a": b"1"}),
    ],
)
def test_a_state_that_would_not_read_back_is_not_written(name: str, value: Any) -> None:
    state = ExecutionState.from_dict({**FULL, name: value})
    with pytest.raises(UnstorableValue, match=name):
        state.to_fields()


def test_the_json_dump_does_not_turn_nan_into_null() -> None:
    back = ExecutionState.model_validate_json(
        ExecutionState(current_node="a", internal_data={"a": math.nan}).model_dump_json()
    )
    assert math.isnan(back.internal_data["a"])


texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53, 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts | st.just("error"), values, max_size=4)
states = st.builds(
    ExecutionState,
    current_node=texts,
    step=st.integers(0, 2**63 - 1),
    status=st.sampled_from(ExecutionStatus),
    interrupted_node=st.none() | texts,
    interrupt_reason=st.none() | texts,
    interrupt_data=st.none() | objects,
    thread_id=st.none() | texts,
    stop_current_execution=st.sampled_from(StopRequestStatus),
    internal_data=objects,
)


@settings(deadline=None)  # no timed assertions
@given(states)
def test_to_dict_json_and_fields_and_back_loses_nothing(state: ExecutionState) -> None:
    backs = {
        "dump": ExecutionState.from_dict(state.model_dump()),
        "dict": ExecutionState.from_dict(state.to_dict()),
        "dict as JSON": ExecutionState.from_dict(json.loads(json.dumps(state.to_dict()))),
        "JSON": ExecutionState.model_validate_json(state.model_dump_json()),
        "JSON as dict": ExecutionState.from_dict(json.loads(state.model_dump_json())),
        "fields": ExecutionState.from_fields(state.to_fields()),
    }
    for way, back in backs.items():
        assert back == state, way
        assert canonical(back.to_dict()) == canonical(state.to_dict()), (
            way
        )  # tells 1 from 1.0 and True


@settings(deadline=None)  # no timed assertions
@given(states)
def test_writing_the_hash_and_reading_it_leaves_the_state_itself_alone(
    state: ExecutionState,
) -> None:
    before = canonical(state.to_dict())
    fields = state.to_fields()
    ExecutionState.from_fields(fields).internal_data["error"] = "another"
    assert canonical(state.to_dict()) == before
    assert all(type(text) is str for text in fields.values()) and set(fields) <= set(FIELDS)


PLAIN = {
    "current_node": "Controller",
    "step": "7",
    "status": "running",
    "stop_current_execution": "none",
    "internal_data": "{}",
}
TOLD = (
    "",
    "0",
    "00",
    "-1",
    "1e3",
    "\u0663",
    "9" * 15,
    "9" * 5000,
    "é",
    "\udc80",
    "{}",
    '{"a":1}',
    "running",
    "stopped",
    "Node",
    None,
)


@pytest.mark.parametrize("name", [*FIELDS, "goal"])
def test_what_is_taken_for_plain_reads_as_it_stands(name: str) -> None:
    for told in TOLD:
        fields = (
            {**PLAIN, name: told}
            if told is not None
            else {other: text for other, text in PLAIN.items() if other != name}
        )
        if is_plain(fields):
            state = ExecutionState.from_fields(fields)
            assert (state.current_node, str(state.step), state.status.value) == (
                fields["current_node"],
                fields["step"],
                fields["status"],
            )


def test_a_running_rounds_fields_are_plain() -> None:
    assert is_plain(PLAIN) and is_plain(
        {
            **PLAIN,
            "thread_id": "\udc80",
            "stop_current_execution": "stop_requested",
            "error": "\udc80",
        }
    )
