"""The inputs of the flow bisect, and how it is marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.flows.core.errors import InvalidInput
from perdure.flows.rounds.registry import make


@pytest.mark.parametrize(
    "wrong",
    [
        {"good": []},
        {"test": ""},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"repo": ""},
        {"bad": 3},
        {"goood": "x"},
        {"test": "a\0b"},
    ],
)
def test_wrong_inputs_are_refused_at_submission(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        make("bisect").check_inputs({"repo": ".", "good": "a", "bad": "b", "test": "true", **wrong})


def test_a_relative_path_is_meant_where_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = make("bisect").check_inputs(
        {"repo": "here", "good": "a", "bad": "b", "test": "true", "timeout": "5"}
    )
    assert (inputs["repo"], inputs["timeout"]) == (str(tmp_path / "here"), 5.0)


def test_it_is_marked_as_running_a_shell_and_its_command_as_idempotent() -> None:
    flow = make("bisect")
    assert flow.runs_shell
    assert flow.offered()["test_commit"].idempotent  # type: ignore[attr-defined]
