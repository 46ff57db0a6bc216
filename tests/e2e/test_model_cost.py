"""The price and the prompt of a model on the command line."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client, InvalidInput, RemoteClient, RunNotFound, Settings
from perdure.worker.errors import UnknownFlow
from tests.support.chat_server import ChatServer
from tests.support.command_line import CommandLine
from tests.support.example_flows import model_controllers  # noqa: F401 -- registers flows
from tests.support.priced_models import ADDS, FINISH, FLOW, InOrder, chat, driver
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving

__all__ = ["chat", "driver"]


@pytest.mark.slow
def test_the_command_line_shows_a_prompt_and_submits_with_a_model(
    tmp_path: Path, settings: Settings, driver: Driver, chat: ChatServer, client: Client
) -> None:
    perdure = CommandLine(
        tmp_path, settings, PERDURE_FLOW_MODULES="tests.support.example_flows.model_controllers"
    )
    chat.play = InOrder([ADDS[0], FINISH])
    submitted = perdure("submit", FLOW, "add", "--model", "b", "--json")
    run_id = submitted.json["id"]
    driver.play()
    shown = perdure("show", run_id, "--prompt", "2")
    assert shown.code == 0 and "sent, exactly as shown" in shown.out.splitlines()[0]
    assert 'calls add {"a":0,"b":1} (call_0_0)' in shown.out and "--- 2 tools" in shown.out
    assert perdure("show", run_id, "--prompt", "2", "--json").json["exact"] is True
    assert "chosen model" in perdure("show", run_id).out
    refused = perdure("show", run_id, "--prompt", "1")
    assert refused.code == 2 and "node Executor" in refused.err
    unknown = perdure("show", run_id, "--prompt", "2", variables={"PERDURE_FLOW_MODULES": ""})
    assert unknown.code == UnknownFlow.exit_code and "PERDURE_FLOW_MODULES" in unknown.err
    with serving(client.settings) as url:
        remote = perdure("show", run_id, "--prompt", "2", "--url", url)
        assert remote.code == 0 and remote.out == shown.out, remote.err
        with closing(RemoteClient(url)) as over_http:
            assert over_http.prompt(run_id, 2) == client.prompt(run_id, 2)
            with pytest.raises(InvalidInput, match="node Executor"):
                over_http.prompt(run_id, 1)
            with pytest.raises(InvalidInput, match="a whole number from 0"):
                over_http.prompt(run_id, -1)
            with pytest.raises(RunNotFound):
                over_http.prompt("nosuch", 0)
    refused = perdure("submit", FLOW, "add", "--model", "d")
    assert refused.code == 2 and "does not allow the model 'd'" in refused.err
