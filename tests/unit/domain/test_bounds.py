"""Sizes and depths: a value that is too large or nested too deep is refused with a clear error,
before anything is made of it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from perdure import DamagedRun
from perdure.flows.commands.replies import MAX_LENGTH, read_reply
from perdure.flows.core.errors import BadReply, InvalidInput, UnstorableValue
from perdure.flows.core.json_values import MAX_DEPTH, storable
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.parse import MAX_BYTES as MOST_OF_A_FILE
from perdure.flows.loading.parse import read_bytes, read_text
from perdure.worker.domain.event import Event
from perdure.worker.domain.record import Record
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.messaging.message import MAX_BYTES as MOST_OF_A_MESSAGE
from perdure.worker.messaging.message import InvalidMessage, validate
from perdure.worker.operations import validation
from tests.support.deep_values import DEEP, deep

DEEP_JSON = "[" * DEEP + "]" * DEEP


def test_a_value_nested_too_deep_is_refused_while_it_is_walked() -> None:
    with pytest.raises(UnstorableValue, match=f"more than {MAX_DEPTH} levels deep"):
        storable(deep(), "the answer")
    with pytest.raises(UnstorableValue, match=f"more than {MAX_DEPTH} levels deep"):
        storable({"a": {"b": deep()}}, "the inputs")


def test_who_and_why_have_a_length() -> None:
    validation.notes(reason="ä" * 8192, requested_by=None)
    with pytest.raises(InvalidInput, match="requested_by takes 16386 bytes"):
        validation.notes(requested_by="ä" * 8193)


@pytest.mark.parametrize(
    "text",
    [
        DEEP_JSON,
        '{"a":' * DEEP,
        "x" * (MAX_LENGTH + 1),
        "```" + " " * 500_000,
        "```" + "\n" * 500_000,
        "```" + "a" * 500_000,
        "`" * 500_000,
    ],
    ids=["lists", "objects", "long", "blanks", "lines", "letters", "fences"],
)
def test_no_reply_of_a_model_is_too_much_for_its_reader(text: str) -> None:
    """The blanks behind a fence that never ends took the old search the square of their number."""
    with pytest.raises(BadReply):
        read_reply(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "a: " + "[" * 50_000,
        "{" * 50_000,
        "- " * 30_000,
        "a: &x 1\nb: *x\n",
        "x" * (MOST_OF_A_FILE + 1),
        "? " * 30_000,
    ],
    ids=["lists", "value", "objects", "items", "anchor", "long", "keys"],
)
def test_no_flow_file_is_too_much_for_its_reader(text: str, tmp_path: Any) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(text)
    with pytest.raises(InvalidFlowFile):
        read_text(read_bytes(path, "flow.yaml"), "flow.yaml")


def test_no_more_of_a_flow_file_is_read_than_a_flow_may_have(tmp_path: Any) -> None:
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"x" * (4 * MOST_OF_A_FILE))
    assert len(read_bytes(path, "flow.yaml")) == MOST_OF_A_FILE + 1


@pytest.mark.parametrize(
    "text",
    ["[" * (MOST_OF_A_MESSAGE - 1), '{"a":' * 3000, "x" * (MOST_OF_A_MESSAGE + 1), DEEP_JSON],
)
def test_no_message_is_too_much_for_the_guard(text: str) -> None:
    with pytest.raises(InvalidMessage):
        validate(text, "perdure.controller")


def test_what_the_server_holds_nested_too_deep_is_damage() -> None:
    with pytest.raises(DamagedRun, match="field 'inputs' is not JSON"):
        _ = Record({"id": "r", "inputs": DEEP_JSON}).inputs
    for text in (DEEP_JSON, "[]", "{}", '{"command":{"name":1}}', "1"):
        digest = hashlib.sha256(b"r " + text.encode()).hexdigest()[:16]
        with pytest.raises(DamagedRun, match="is not a turn"):
            unpack_turns("r", [f"{digest} {text}"])
    with pytest.raises(DamagedRun, match="event 1-0 of a run cannot be read"):
        Event.of(
            "1-0",
            {
                "type": "committed",
                "at": "1",
                "step": "0",
                "attempt": "1",
                "node": "N",
                "data": DEEP_JSON,
            },
        )
