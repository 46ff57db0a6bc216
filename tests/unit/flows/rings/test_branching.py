"""BranchingFlow: one command, chosen by its exact name."""

from __future__ import annotations

import argparse

import pytest

from perdure import (
    BadReply,
    BranchingFlow,
    End,
    FatalError,
    Finish,
    InvalidInput,
    RetryableError,
    RoundContext,
    RoundStopped,
    command,
)

CONTEXT = RoundContext("g")


class Tools(BranchingFlow):
    @command
    def add(self, a: int, b: int = 1) -> int:
        return a + b

    @command
    def fail(self) -> None:
        raise ValueError("out of \ud800 cheese")

    @command
    def leave(self) -> None:
        argparse.ArgumentParser(exit_on_error=True).parse_args(["--unknown"])

    @command
    def busy(self) -> None:
        raise RetryableError("busy")

    @command
    def done(self) -> Finish:
        return Finish("done")


def test_branch_and_its_data_give_the_branchs_output() -> None:
    assert Tools()({"branch": "add", "branch_input_data": {"a": 2}}, CONTEXT) == {
        "branch_output_data": 3
    }


@pytest.mark.parametrize("name", ["Add", "add ", "ad", None, 5, ["add"]])
def test_names_match_exactly(name: object) -> None:
    with pytest.raises(BadReply, match=r"no command is named .*Known: add, busy"):
        Tools()({"branch": name, "branch_input_data": {"a": 2}}, CONTEXT)


@pytest.mark.parametrize("data", [None, {}, {"a": 1, "c": 1}, {"a": "x"}, [1], "a"])
def test_wrong_arguments_carry_nothing_out(data: object) -> None:
    with pytest.raises(BadReply, match="'add'"):
        Tools()({"branch": "add", "branch_input_data": data}, CONTEXT)


def test_an_exception_is_raised_or_told() -> None:
    with pytest.raises(FatalError, match=r"cheese.*not idempotent") as raised:
        Tools()({"branch": "fail"}, CONTEXT)
    assert isinstance(raised.value.__cause__, ValueError)
    assert Tools(tell_errors=True)({"branch": "fail"}, CONTEXT) == {
        "branch_output_data": {"error": "ValueError: out of ? cheese"}
    }


def test_a_command_that_exits_does_not_end_the_worker(capsys: pytest.CaptureFixture[str]) -> None:
    assert Tools(tell_errors=True)({"branch": "leave"}, CONTEXT) == {
        "branch_output_data": {"error": "SystemExit: 2"}
    }


def test_retryable_errors_are_never_told() -> None:
    with pytest.raises(RetryableError):
        Tools(tell_errors=True)({"branch": "busy"}, CONTEXT)


def test_a_failure_of_a_cancelled_round_is_not_told() -> None:
    context = RoundContext("g")
    context.cancelled.set()
    with pytest.raises(RoundStopped):
        Tools(tell_errors=True)({"branch": "fail"}, context)


def test_by_itself_it_is_a_run_of_one_round() -> None:
    inputs = {"branch": "add", "branch_input_data": {"a": 1}}
    flow = Tools()
    assert flow.check_inputs(inputs) == inputs
    assert flow.play("Branch", RoundContext("g", inputs)) == End(2, {"branch_output_data": 2})
    assert flow.play("Branch", RoundContext("g", {"branch": "done"})) == End(
        "done", {"branch_output_data": "done"}
    )


def test_by_itself_it_refuses_an_unknown_branch_at_submission() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'add'"):
        Tools().check_inputs({"branch": "adds"})
