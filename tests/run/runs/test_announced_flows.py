"""Submissions of a client without the flow's code, by the announcements of live workers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from perdure import Client, InvalidInput, UnknownFlow
from perdure.worker.domain.fleet import describe
from tests.support.example_flows.child_runs import Strict


class One(BaseModel):
    qty: int


class Two(BaseModel):
    qty: int
    gift: bool


def announce(client: Client, worker: str, name: str, inputs: type[BaseModel] | None) -> None:
    description: dict[str, Any] = describe(Strict())
    description["inputs"] = None if inputs is None else inputs.model_json_schema()
    description["needs_goal"] = False
    store = client._store
    store.fleet.announce(worker, {"role": "all", "flows": {name: description}}, store.time(), 0)


def test_inputs_of_a_wrong_type_are_refused_at_submission(client: Client) -> None:
    announce(client, "w", "elsewhere", One)
    with pytest.raises(InvalidInput, match="qty: expected a whole number, got 'many'"):
        client.submit("elsewhere", inputs={"qty": "many"})
    assert client.submit("elsewhere", inputs={"qty": 3}).inputs == {"qty": 3}


def test_in_a_rollout_inputs_have_to_fit_one_of_the_announced_versions(client: Client) -> None:
    announce(client, "old", "elsewhere", One)
    announce(client, "new", "elsewhere", Two)
    client.submit("elsewhere", inputs={"qty": 3})
    client.submit("elsewhere", inputs={"qty": 3, "gift": True})
    with pytest.raises(InvalidInput, match="gift"):
        client.submit("elsewhere", inputs={"qty": 3, "gift": "perhaps"})


def test_an_unknown_flow_is_told_the_nearest_announced_one(client: Client) -> None:
    announce(client, "w", "report", One)
    with pytest.raises(UnknownFlow, match=r"no flow is named 'reprt'; did you mean 'report'\?"):
        client.submit("reprt")
    with pytest.raises(UnknownFlow, match=r"unknown flow 'reprt'; did you mean 'report'\?"):
        client.pause_flow("reprt")
