"""record: stored fields read back as they were written, or are recognized as damaged."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command, Turn
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.record import CONTENT, SCHEMA, VALUE, Record, digest_of, version_of
from perdure.worker.domain.turn_texts import pack_turn, unpack_turns
from perdure.worker.errors import DamagedRun

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TURNS = st.builds(
    Turn,
    st.none()
    | st.builds(
        Command,
        TEXT,
        st.dictionaries(TEXT, JSON, max_size=3),
        st.dictionaries(TEXT, JSON, max_size=2),
    ),
    JSON,
)


def sound(**extra: str) -> dict[str, str]:
    fields = {
        **ExecutionState(current_node="Controller").to_fields(),
        "id": "r",
        "schema": SCHEMA,
        "flow": "ring",
        "goal": "g",
        "inputs": "{}",
    }
    fields |= {"cycles": "0", "turns": "0", "epoch": "0", **extra}
    return {**fields, "digest": digest_of(fields)}


def test_a_sound_record_is_accepted() -> None:
    Record(sound(**{"v:x": "1"})).check()


@pytest.mark.parametrize("name", [*(name for name in sorted(CONTENT) if name in sound()), "v:x"])
def test_any_change_to_the_content_is_found(name: str) -> None:
    fields = sound(**{"v:x": "1"})
    with pytest.raises(DamagedRun, match="digest"):
        Record({**fields, name: fields[name] + "1"}).check()


@pytest.mark.parametrize("name", ["v:x", "goal", "inputs"])
def test_a_field_that_is_gone_is_found(name: str) -> None:
    fields = sound(**{"v:x": "1"})
    del fields[name]
    with pytest.raises(DamagedRun, match="digest"):
        Record(fields).check()


def test_a_value_that_was_added_or_moved_is_found() -> None:
    fields = sound(**{"v:a": "1", "v:b": "2"})
    for changed in ({"v:c": "3"}, {"v:a": "2", "v:b": "1"}):
        with pytest.raises(DamagedRun):
            Record({**fields, **changed}).check()


@pytest.mark.parametrize("name", ["phase", "token", "epoch", "lease_until", "stop_by", "ops"])
def test_what_the_scripts_write_is_not_under_the_digest(name: str) -> None:
    Record({**sound(), name: "changed"}).check()


@pytest.mark.parametrize("schema", [None, "", "0", str(int(SCHEMA) + 1), "99"])
def test_another_schema_is_refused_with_both_versions_named(schema: str | None) -> None:
    fields = {
        name: text for name, text in {**sound(), "schema": schema}.items() if text is not None
    }
    with pytest.raises(DamagedRun, match=f"schema {schema!r}.*{SCHEMA!r}"):
        Record(fields).check()


def test_a_record_without_a_digest_is_damaged() -> None:
    fields = sound()
    del fields["digest"]
    with pytest.raises(DamagedRun):
        Record(fields).check()


def test_bytes_that_are_no_text_are_damage_and_no_crash() -> None:
    fields = sound()
    with pytest.raises(DamagedRun):
        Record({**fields, "goal": b"\xff\xfe".decode("utf-8", "surrogateescape")}).check()


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_values_read_back_equal(values: dict[str, Any]) -> None:
    fields = sound(**{VALUE + name: canonical(value) for name, value in values.items()})
    record = Record(fields)
    record.check()
    assert record.values == values


@given(st.lists(TURNS, max_size=4))
def test_turns_read_back_equal(turns: list[Turn]) -> None:
    assert unpack_turns("r", [pack_turn(turn, "r") for turn in turns]) == turns


@given(TURNS)
def test_a_turn_of_another_run_is_damage(turn: Turn) -> None:
    with pytest.raises(DamagedRun, match="belongs to another run"):
        unpack_turns("r", [pack_turn(turn, "s")])


@given(TURNS, st.data())
def test_a_turn_of_which_a_character_changed_is_damage(turn: Turn, data: st.DataObject) -> None:
    entry = pack_turn(turn, "r")
    place = data.draw(st.integers(0, len(entry) - 1))
    changed = entry[:place] + ("x" if entry[place] != "x" else "y") + entry[place + 1 :]
    with pytest.raises(DamagedRun, match="run r"):
        unpack_turns("r", [changed])


@pytest.mark.parametrize(
    "entry", ["", " ", "{}", "e3b0c44298fc1c14 {}", "no digest at all", "\udcff\udcfe"]
)
def test_an_entry_that_was_never_appended_is_damage(entry: str) -> None:
    with pytest.raises(DamagedRun):
        unpack_turns("r", [entry])


@pytest.mark.parametrize("name", ["step", "epoch", "cycles", "turns"])
@pytest.mark.parametrize("text", ["", "x", "1.5", "nan"])
def test_a_count_that_is_no_whole_number_is_damage_that_names_its_field(
    name: str, text: str
) -> None:
    with pytest.raises(DamagedRun, match=name):
        getattr(Record({**sound(), name: text}), name)


def test_inputs_that_are_no_json_are_damage() -> None:
    with pytest.raises(DamagedRun, match="inputs"):
        _ = Record({**sound(), "inputs": "{"}).inputs


def test_a_state_that_does_not_read_back_is_damage() -> None:
    with pytest.raises(DamagedRun, match="execution state"):
        _ = Record({**sound(), "status": "garbage"}).state


def test_the_digest_depends_on_nothing_but_the_content() -> None:
    assert digest_of({"b": "1", "flow": "f", "v:x": "1"}) == digest_of({"v:x": "1", "flow": "f"})
    assert digest_of({"v:x": "1"}) != digest_of({"v:x": "1", "v:y": ""})


def test_times_are_ms_in_the_store_and_seconds_outside() -> None:
    record = Record({**sound(), "created_at": "1500"})
    assert record.time("created_at") == 1.5 and record.time("ended_at") is None


def test_absent_limits_are_none() -> None:
    assert Record(sound()).max_rounds is None and Record(sound()).deadline is None
    assert Record(sound(max_rounds="3", deadline="12")).max_rounds == 3
    assert Record(sound(max_rounds="3", deadline="12")).deadline == 12


def test_an_object_is_read_as_one_and_nothing_else_is() -> None:
    assert Record({"id": "r", "x": '{"a":1}'}).mapping("x") == {"a": 1}
    assert Record({"id": "r"}).mapping("x") == {}
    with pytest.raises(DamagedRun, match=r"^run r: field 'x': expected an object, got '\[1\]'$"):
        Record({"id": "r", "x": "[1]"}).mapping("x")


def test_a_count_that_is_not_there_is_none_yet() -> None:
    assert (
        Record({"id": "r"}).count("cycles") == 0
        and Record({"id": "r", "cycles": "3"}).count("cycles") == 3
    )


def test_an_entry_that_is_no_turn_names_its_run_and_what_is_wrong() -> None:
    entry = f"{pack_turn(Turn(None), 'r').partition(' ')[0]} {{}}"
    digest = hashlib.sha256(b"r {}").hexdigest()[:16]
    with pytest.raises(DamagedRun, match=r"^run r: an entry of its history does not match"):
        unpack_turns("r", [entry])
    with pytest.raises(
        DamagedRun, match=r"^run r: an entry of its history is not a turn \(KeyError\)"
    ):
        unpack_turns("r", [f"{digest} {{}}"])


def test_a_run_has_the_lowest_version_that_reads_all_its_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perdure.worker.domain.record.SINCE", {"patience": "2", "mailbox": "10"})
    assert [
        version_of(names) for names in ([], ["goal"], ["goal", "patience"], ["mailbox", "patience"])
    ] == ["1", "1", "2", "10"]


@pytest.mark.parametrize("schema", ["1", "2", "3", "4", "", "none"])
def test_runs_of_older_versions_are_read_and_those_of_newer_ones_are_not(
    monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    monkeypatch.setattr("perdure.worker.domain.record.SCHEMA", "2")
    record = Record({**sound(), "schema": schema})
    if schema in ("1", "2"):
        record.check()
    else:
        with pytest.raises(DamagedRun, match="schema"):
            record.check()
