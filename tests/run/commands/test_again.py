"""A run once more, with another model: by the client and by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, ControllerExecutorFlow, Settings, register
from perdure.flows.controllers.model import ModelController
from perdure.worker.errors import InvalidInput
from tests.support.command_line import CommandLine

FLOW = "again_models"


@register(FLOW)
class Choosing(ControllerExecutorFlow):
    """A flow whose submitters choose between two models."""

    controller = ModelController(model="openai:a", allowed_models=["openai:b", "openai:c"])


def test_a_run_is_submitted_once_more_with_another_model(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit(FLOW, "go", model="openai:b")
    assert client.again(run.id).details["model"] == "openai:b"
    assert client.again(run.id, model="openai:c").details["model"] == "openai:c"
    done = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=__name__)(
        "again", run.id, "--model", "openai:c"
    )
    assert client.get(done.out.strip()).details["model"] == "openai:c"
    with pytest.raises(InvalidInput, match="openai:d"):
        client.again(run.id, model="openai:d")
