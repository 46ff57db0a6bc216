"""A client with the flow's code and one without submit the same content."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, Conflict, Settings
from tests.support.command_line import CommandLine

FLOWS = """
from pydantic import BaseModel
from perdure import ControllerExecutorFlow, Finish, command, register

@register("parcel")
class Parcel(ControllerExecutorFlow):
    class Inputs(BaseModel):
        to: str
        weight: float = 1.5

    def decide(self, context):
        return Finish(context.inputs["to"])

    @command
    def weigh(self) -> None: ...
"""


@pytest.mark.slow
def test_a_client_with_the_flows_code_and_one_without_submit_the_same(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "parcels.py").write_text(FLOWS)
    with_code = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="parcels")
    with with_code.worker():
        submitted = with_code(
            "submit", "parcel", "x", "--input", "to=me", "--idempotency-key", "k", "--id", "one"
        )
        assert submitted.code == 0, submitted.err
        assert client.submit("parcel", "x", {"to": "me"}, idempotency_key="k").id == "one"
        with pytest.raises(Conflict):
            client.submit("parcel", "x", {"to": "me", "weight": 1.5}, idempotency_key="k")
