"""Results: a long one is cut for the history, and kept whole as an artifact."""

from __future__ import annotations

from perdure import Command, ControllerExecutorFlow, Finish, ScriptedController
from perdure.flows.core.summaries import MOST_KEPT, bounded
from tests.support.flow_player import play_through


def shout(times: int) -> str:
    """Return a long shout."""
    return "é" * times


def test_what_is_short_stays_as_it_is() -> None:
    assert bounded({"a": 1}, 7, "x") == ({"a": 1}, {})
    assert bounded("aaa", 3, "x") == ("aaa", {})


def test_what_is_long_is_cut_with_a_note_and_kept_whole() -> None:
    cut, artifacts = bounded("a" * 100, 10, "3-shout")
    assert cut == {
        "beginning": "a" * 10,
        "note": "cut after 10 of 100 characters; the whole is the artifact '3-shout'",
        "artifact": "3-shout",
    }
    assert artifacts == {"3-shout": "a" * 100}


def test_an_object_is_kept_as_its_json() -> None:
    cut, artifacts = bounded({"a": list(range(10))}, 10, "x")
    assert cut["beginning"] == '{"a":[0,1,'
    assert artifacts == {"x": '{"a":[0,1,2,3,4,5,6,7,8,9]}'}


def test_what_is_longer_than_an_artifact_may_be_says_so() -> None:
    cut, artifacts = bounded("a" * (MOST_KEPT + 1), 10, "x")
    assert len(artifacts["x"]) == MOST_KEPT and f"its first {MOST_KEPT} characters" in cut["note"]


def test_a_flow_says_how_much_of_a_result_its_history_keeps() -> None:
    controller = ScriptedController(
        [Command("shout", {"times": 20}), Command("shout", {"times": 5}), Finish("done")]
    )
    played = play_through(
        ControllerExecutorFlow(controller=controller, commands=[shout], max_result=10)
    )
    assert played.observations[0]["artifact"] == "1-shout"
    assert played.observations[1] == "é" * 5
    kept = [
        outcome.artifacts
        for _, outcome in played.rounds
        if hasattr(outcome, "artifacts") and outcome.artifacts
    ]
    assert kept == [{"1-shout": "é" * 20}]
