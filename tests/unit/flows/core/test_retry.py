"""Retry policies: durations, names of errors, the winner among several, and their effect on a
failure.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    InvalidFlow,
    InvalidInput,
    Node,
    Retry,
    RetryableError,
    RoundContext,
    command,
)
from perdure.flows.core.retry import retry_of, tightening
from perdure.flows.rings.config import read_config
from perdure.worker.domain.failed_attempt import failure
from tests.support.run_records import SETTINGS, record


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("24h", 86_400),
        ("7d", 604_800),
        ("50ms", 0.05),
        (2, 2),
        (timedelta(minutes=1), 60),
    ],
)
def test_a_duration_is_seconds_a_timedelta_or_a_text(given: Any, seconds: float) -> None:
    assert Retry(within=given).patience == seconds


@pytest.mark.parametrize(
    "wrong",
    [{"within": "soon"}, {"initial": -1}, {"max_attempts": 0}, {"max_attempts": True}, {"jitter": 2}, {"multiplier": 0},
     {"on": "ValueError"}, {"on": [5]}, {"within": float("nan")}, {"maximum": "1y"}],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match=f"Retry: {next(iter(wrong))}"):
        Retry(**wrong)


def test_an_unknown_setting_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidFlow, match=r"no setting 'max_attempt'.*max_attempts"):
        retry_of({"max_attempt": 3}, "@command")


def test_the_most_specific_policy_wins_setting_by_setting() -> None:
    class Flow(ControllerExecutorFlow):
        retry = Retry(max_attempts=2, within="1h", initial=5)
        topology = (
            Node("Controller", "choose_command", role="controller"),
            Node(
                "Executor",
                "carry_out",
                input_interface="command_to_branch",
                output_interface="branch_to_observation",
                retry=Retry(initial=7),
            ),
        )

        def decide(self, context: RoundContext) -> Finish:
            return Finish()

        @command(retry=Retry(max_attempts=9))
        def act(self) -> None:
            pass

        @command
        def plain(self) -> None:
            pass

    flow = Flow()
    assert flow.retry_of("Executor", {"command": "act"}) == Retry(
        max_attempts=9, within=3600, initial=7
    )
    assert flow.retry_of("Executor", {"command": "plain"}) == Retry(
        max_attempts=2, within=3600, initial=7
    )
    assert flow.retry_of("Controller", {"command": "act"}) == Retry(
        max_attempts=2, within=3600, initial=5
    )


def test_a_policy_is_data_under_the_parts_of_a_configuration() -> None:
    class Flow(ControllerExecutorFlow):
        flow_config = read_config(
            {
                "subflows_config": {
                    "Controller": {"retry": {"within": "10m"}},
                    "Executor": {
                        "retry": {"max_attempts": 4},
                        "subflows_config": {"act": {"retry": {"on": ["OSError"]}}},
                    },
                }
            }
        )

        def decide(self, context: RoundContext) -> Finish:
            return Finish()

        @command
        def act(self) -> None:
            pass

    flow = Flow()
    assert flow.retry_of("Controller", {}) == Retry(within=600)
    assert flow.retry_of("Executor", {"command": "act"}) == Retry(max_attempts=4, on=["OSError"])


def test_a_submission_may_only_tighten() -> None:
    policy = Retry(max_attempts=5, within="1h", initial=3)
    assert policy.tightened(Retry(max_attempts=9, within="2h", initial=1)) == policy
    assert policy.tightened(Retry(max_attempts=2, within="1m", not_on=["OSError"])) == Retry(
        2, 3, within=60, not_on=["OSError"]
    )


def test_only_the_named_errors_and_retryable_ones_are_tried_again() -> None:
    policy = Retry(on=[OSError], not_on=["ConnectionResetError"])
    fatal = {
        error: "fatal" in failure(record(), error, SETTINGS, 0.5, policy).options
        for error in (
            ConnectionError("x"),
            ConnectionResetError("x"),
            ValueError("x"),
            RetryableError("x"),
            FatalError("x"),
        )
    }
    assert list(fatal.values()) == [False, True, True, False, True]


def test_a_policy_says_how_often_how_long_and_with_which_waits() -> None:
    policy = Retry(max_attempts=7, initial="2s", maximum="10s", multiplier=3, jitter=0, within="1h")
    options = [
        failure(record(failures=str(failures)), ValueError("boom"), SETTINGS, 0.3, policy).options
        for failures in range(3)
    ]
    assert [each["delay"] for each in options] == [2_000, 6_000, 10_000]
    assert {(each["max_failures"], each["within"]) for each in options} == {(7, 3_600_000)}


def test_a_busy_provider_is_waited_for_with_waits_that_double_to_a_minute_for_a_day() -> None:
    busy = RetryableError("busy", counts=False)
    delays = [
        failure(record(failing=f"2 4 5 {waits}"), busy, SETTINGS, 0.999999, None).options["delay"]
        for waits in range(9)
    ]
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    options = failure(
        record(), RetryableError("busy", retry_after=7, counts=False), SETTINGS, 0.5
    ).options
    assert (options["delay"], options["uncounted"], options["within"]) == (7_000, 1, 86_400_000)
    assert failure(record(), busy, SETTINGS, 0.5, Retry(within="10m")).options["within"] == 600_000
    assert failure(record(failing="2 3 5 8"), busy, SETTINGS, 0.999999).options["delay"] == 1_000, (
        "what another step waited is no matter"
    )


def test_a_command_that_must_not_happen_twice_is_repeated_after_the_errors_that_its_policy_names() -> (
    None
):
    class Flow(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Command:
            return Command("act")

        @command(retry=Retry(on=[ConnectionError]))
        def act(self, kind: str) -> None:
            raise {"connection": ConnectionError, "value": ValueError}[kind]("no")

    for kind, error in (("connection", ConnectionError), ("value", FatalError)):
        context = RoundContext("g", committed={"command": "act", "command_args": {"kind": kind}})
        with pytest.raises(error):
            Flow().play("Executor", context)
        assert context.journal.text == "", "the next attempt is in no doubt"


def test_a_ring_refuses_a_policy_that_is_none() -> None:
    class Ring(CircularFlow):
        topology = (Node("A", lambda given, context: {}, retry=3),)  # type: ignore[arg-type]

    with pytest.raises(InvalidFlow, match="node A: retry is 3"):
        Ring()


@pytest.mark.parametrize(
    "given", [{"initial": 1}, {"on": ["OSError"]}, {"within": "soon"}, {"max_attempt": 1}, 5]
)
def test_a_submission_that_would_loosen_a_policy_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?i)retry"):
        tightening(given)


def test_what_a_submission_says_bounds_what_the_flow_and_the_worker_say() -> None:
    bounds = tightening({"max_attempts": 2, "within": "1m", "not_on": ["OSError"]})
    options = failure(
        record(), ValueError("x"), SETTINGS, 0.5, Retry(max_attempts=9), bounds
    ).options
    assert (options["max_failures"], options["within"]) == (2, 60_000)
    assert "fatal" in failure(record(), OSError("x"), SETTINGS, 0.5, None, bounds).options
    busy = RetryableError("busy", counts=False)
    assert failure(record(), busy, SETTINGS, 0.5, None, bounds).options["within"] == 60_000
