"""Settings of a flow for the model library are checked when they are read, and reach the request;
secrets are references.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import FatalError, RoundContext
from perdure.flows.commands.calls import call
from perdure.flows.commands.controller import InvalidController
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.candidates import candidates_of
from perdure.flows.controllers.model.endpoint import Target
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_server import ChatServer, Fails, Says, chat_server

CANARY = "sk-canary-0123456789"
FINISHES = Says("", [("finish", {"answer": 1})])
COMMANDS = [
    {
        "name": "finish",
        "description": "",
        "parameters": {"type": "object", "properties": {"answer": {}}},
    }
]


def decide(server: ChatServer, **given: Any) -> Any:
    context = RoundContext(
        "g", endpoint=Endpoint("m", server.url, "env:HF_WORKERS"), commands=COMMANDS
    )
    return call(ModelController(**given).decide, context, context)


def test_settings_of_the_library_reach_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_WORKERS", "the-workers")
    monkeypatch.setenv("HF_TEAM", CANARY)
    settings = {
        "seed": 7,
        "tool_choice": "required",
        "extra_body": {"store": False},
        "extra_headers": {"x-team-key": "env:HF_TEAM"},
    }
    with chat_server([FINISHES]) as server:
        decide(server, settings=settings)
        decide(server, settings=settings, reply="json")
    [asked, in_words] = server.play.asked
    assert (asked.body["seed"], asked.body["tool_choice"], asked.body["store"]) == (
        7,
        "required",
        False,
    )
    assert asked.headers["x-team-key"] == CANARY
    assert "tool_choice" not in in_words.body, "there are no tools to choose from"


def test_a_secret_in_settings_is_in_no_error_and_a_missing_one_ends_the_run_unbilled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_WORKERS", "the-workers")
    monkeypatch.setenv("HF_TEAM", CANARY)
    settings = {"extra_headers": {"authorization": "env:HF_TEAM"}}
    with chat_server(
        [FINISHES], {0: [Fails(401, {"error": {"message": f"wrong {CANARY}"}})]}
    ) as server:
        with pytest.raises(FatalError, match=r"wrong \[secret\]"):
            decide(server, settings=settings)
        monkeypatch.delenv("HF_TEAM")
        with pytest.raises(FatalError, match="no variable HF_TEAM"):
            decide(server, settings=settings)
        assert len(server.play.asked) == 1


@pytest.mark.parametrize(
    ("given", "place", "told"),
    [
        (
            {"settings": {"thinkin": True}},
            ("settings", "thinkin"),
            "no such setting; did you mean 'thinking'",
        ),
        (
            {"settings": {"openai_stor": False}},
            ("settings", "openai_stor"),
            "did you mean 'openai_store'",
        ),
        (
            {"settings": {"tool_choice": "sometimes"}},
            ("settings", "tool_choice"),
            "Input should be 'none', 'required' or 'auto'",
        ),
        ({"settings": {"timeout": 3}}, ("settings", "timeout"), "timeout_seconds under Controller"),
        ({"settings": {"max_retries": 3}}, ("settings", "max_retries"), "max_attempts"),
        (
            {"settings": {"extra_headers": {"Authorization": CANARY}}},
            ("settings", "extra_headers", "Authorization"),
            "env:NAME",
        ),
        (
            {"model": "azure:m", "provider": {"azure_endpont": "x"}},
            ("provider", "azure_endpont"),
            "did you mean 'azure_endpoint'",
        ),
        (
            {"model": "azure:m", "provider": {"voice_live_api_key": CANARY}},
            ("provider", "voice_live_api_key"),
            "never the secret",
        ),
        (
            {"model": "azure:m", "provider": {"api_version": ["a"]}},
            ("provider", "api_version"),
            "it should be text",
        ),
        ({"provider": {"base_url": "http://x"}}, ("provider",), "it requires model: PROVIDER:NAME"),
        (
            {"model": "openai:m", "provider": {"base_url": "http://x"}},
            ("provider",),
            "only a key configured in the flow",
        ),
        ({"price": {"input": 1.0, "outputs": 2.0}}, ("price", "outputs"), "did you mean 'output'"),
    ],
)
def test_what_the_library_would_not_take_is_told_when_the_flow_is_read(
    given: dict[str, Any], place: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InvalidController) as refused:
        ModelController(**given)
    [sentence] = [sentence for at, sentence in refused.value.faults if at == place]
    assert told in sentence and CANARY not in str(refused.value)


def test_a_settings_of_a_provider_whose_package_is_not_here_is_left_to_the_worker_that_has_it() -> (
    None
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "pydantic_ai.models.xai", None)
        controller = ModelController(settings={"xai_user": "u"})
    assert "xai_user" in repr(controller.settings)


def test_a_provider_is_reached_at_the_address_and_with_the_key_of_the_flow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_MINE", CANARY)
    provider = {"api_version": "2024-10-21"}
    with chat_server([FINISHES]) as server:
        address = server.url.removesuffix("/v1")
        decide(
            server,
            model="azure:gpt-4o",
            api_key="env:HF_MINE",
            provider={**provider, "azure_endpoint": address},
        )
        monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "myorg-myaccount")
        decide(
            server, model="snowflake:m", api_key="env:HF_MINE", provider={"base_url": server.url}
        )
    azure, snowflake = server.play.asked
    assert "/openai/deployments/gpt-4o/" in azure.path and azure.headers["api-key"] == CANARY
    assert snowflake.headers["authorization"] == f"Bearer {CANARY}"
    assert all("the-workers" not in str(asked.headers) for asked in server.play.asked)


def test_a_providers_own_arguments_take_no_key_of_the_worker() -> None:
    own = ModelController(
        model="openai:m", api_key="env:HF_MINE", provider={"base_url": "http://gateway"}
    )
    context = RoundContext("g", endpoint=Endpoint("openai:m", None, "env:HF_WORKERS"))
    [asked] = candidates_of(own.settings, context)
    assert asked.target == Target(
        "openai:m", None, "env:HF_MINE", provider={"base_url": "http://gateway"}
    )


def test_what_an_address_of_a_provider_hides_is_in_no_error() -> None:
    target = Target(
        "azure:m",
        None,
        None,
        provider={
            "azure_endpoint": "https://user:pass-word@x/?sig=query-secret",
            "api_version": "1",
        },
    )
    assert {"pass-word", "query-secret"} <= set(target.secrets())


def test_a_file_says_both_and_its_faults_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = "flow: controller_executor\ncontroller: model\nsubflows_config:\n  Controller:\n    settings:\n      {}: true\n"
    path.write_text(text.format("parallel_tool_calls"), "utf-8")
    assert read_flow(path)().controller.settings.settings == {"parallel_tool_calls": True}  # type: ignore[attr-defined]
    path.write_text(text.format("paralel_tool_calls"), "utf-8")
    with pytest.raises(InvalidFlowFile) as refused:
        read_flow(path)
    [fault] = refused.value.faults
    assert "line 6, key subflows_config.Controller.settings.paralel_tool_calls" in str(
        fault
    ) and "parallel_tool_calls" in str(fault)
