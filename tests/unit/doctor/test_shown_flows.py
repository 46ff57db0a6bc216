"""The flows that a list shows, and the doctor's finding on a provider's missing key."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.flows.rounds import registry
from perdure.flows.workflows.questions import FLOW
from perdure.worker.doctor.app_checks import model_key
from perdure.worker.domain.fleet import HELPERS, names_text, shown
from perdure.worker.domain.verdict import Level
from perdure.worker.settings import Settings


def flow(shipped: bool, runs_shell: bool = False, workers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"shipped": shipped, "runs_shell": runs_shell, "workers": list(workers)}


def test_shipped_flows_that_are_not_enabled_are_left_out_beside_ones_own() -> None:
    flows = {
        "own": flow(False),
        "react": flow(True),
        "countdown": flow(True),
        "bisect": flow(True, True, ("w",)),
        "old": {**flow(False)},
    }
    assert set(shown(flows)) == {"own", "bisect", "old"}
    assert set(shown(flows, enabled=("react",), also="countdown")) == set(flows)
    assert set(shown({"react": flow(True)})) == {"react"}, (
        "where nothing else is there, newcomers see what ships"
    )


def test_a_flow_that_only_serves_others_is_in_no_list_for_people() -> None:
    registry.registered()
    assert {FLOW} == HELPERS and registry.is_shipped(FLOW)
    flows = {"own": flow(False), FLOW: flow(True)}
    assert set(shown(flows, enabled=(FLOW,))) == {"own"}
    assert set(shown({"react": flow(True), FLOW: flow(True)})) == {"react"}
    assert set(shown(flows, also=FLOW)) == set(flows), "the page of its own form shows it"
    assert names_text(flows) == "own"


def test_the_registry_knows_what_ships() -> None:
    registry.registered()
    assert registry.is_shipped("countdown") and not registry.is_shipped("no-such-flow")


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({"model": "openai:gpt-5"}, Level.WARNING),
        ({"model": "groq:x", "model_key": "env:MY_OWN"}, Level.WARNING),
        ({"model": "unheard:of"}, Level.OK),
        ({"model_url": "http://localhost:1/v1"}, Level.OK),
        ({}, Level.OK),
    ],
)
def test_a_missing_key_of_the_models_provider_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], level: Level
) -> None:
    for name in ("OPENAI_API_KEY", "MY_OWN"):
        monkeypatch.delenv(name, raising=False)
    finding = model_key(Settings(**given))  # type: ignore[arg-type]
    assert (finding.check, finding.level) == ("model", level)
    if level is Level.WARNING:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
        monkeypatch.setenv("MY_OWN", "sk-x")
        assert model_key(Settings(**given)).level is Level.OK  # type: ignore[arg-type]
