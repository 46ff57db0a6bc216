"""Settings of a model by flow and worker: templates, the address of requests, and their key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure import FatalError, InvalidFlow, RoundContext, Turn, make
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model import settings as model_settings
from perdure.flows.controllers.model.chat import SystemMessage, UserMessage
from perdure.flows.controllers.model.endpoint import Target, target_of
from perdure.flows.controllers.model.tool_names import LONGEST, ToolNames
from perdure.flows.core.budgets import Budget
from perdure.flows.core.history import History
from perdure.flows.core.outcomes import Command
from perdure.flows.core.secrets import HIDDEN, check_reference, scrubbed, secret_of
from perdure.flows.loading import sources
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from perdure.flows.rounds.providers import Endpoint
from perdure.worker.app import engine_of, make_app
from perdure.worker.cli.commands.flows import _workers_text
from perdure.worker.domain.fleet import describe
from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings, load_settings

ROOT = Path(__file__).parents[5]
CANARY = "sk-canary-0123456789"
KEY = "env:HF_TEST_KEY"


def faults_of(tmp_path: Path, controller: str) -> list[str]:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"flow: controller_executor\ncontroller: model\nsubflows_config:\n  Controller:\n{controller}",
        "utf-8",
    )
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(path)
    return [re.sub(r"^.*mine.yaml, ", "", str(fault)) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            "    repy: json\n",
            "line 5, key subflows_config.Controller.repy: controller 'model' has no such setting; did you mean 'reply'",
        ),
        (
            "    reply: xml\n",
            "line 5, key subflows_config.Controller.reply: it should be 'auto', 'tools' or 'json'",
        ),
        (
            "    window:\n      fist: 1\n",
            "line 6, key subflows_config.Controller.window.fist: unknown key; did you mean 'first'",
        ),
        (
            "    window: {last: 0}\n",
            "line 5, key subflows_config.Controller.window.last: it should be greater than or equal to 1",
        ),
        (
            "    timeout_seconds: 0\n",
            "line 5, key subflows_config.Controller.timeout_seconds: it should be greater than 0",
        ),
        (
            "    base_url: localhost:80\n",
            "line 5, key subflows_config.Controller.base_url: it should match pattern",
        ),
        (
            f"    api_key: {CANARY}\n",
            "line 5, key subflows_config.Controller.api_key: the key should say where the secret is found: env:NAME",
        ),
        (
            "    system: '{{ gaol }}'\n",
            "line 5, key subflows_config.Controller.system: the template uses the unknown name 'gaol'; did you mean 'goal'",
        ),
        (
            "    user: '{% if %}'\n",
            "line 5, key subflows_config.Controller.user: invalid template: Expected an expression",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_line_and_key(
    tmp_path: Path, written: str, told: str
) -> None:
    [fault] = faults_of(tmp_path, written)
    assert fault.startswith(told) and CANARY not in fault


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, f"    api_key: {CANARY}\n    reply: 7\n    max_tokens: 0\n")
    assert [fault.partition(":")[0].rpartition(".")[2] for fault in faults] == [
        "api_key",
        "reply",
        "max_tokens",
    ]
    assert CANARY not in str(faults)


def rendered(controller: ModelController, **context: Any) -> tuple[str, str]:
    [system, user, *_] = controller.messages(
        RoundContext("the goal", **context), ToolNames(()), tools=True
    )
    assert isinstance(system, SystemMessage) and isinstance(user, UserMessage)
    return system.text, user.text


def test_templates_see_goal_inputs_node_goal_commands_budgets_and_values() -> None:
    template = "{{ goal }}|{{ inputs.a }}|{{ node_goal }}|{{ commands[0].name }}|{{ budgets.tokens.limit }}|{{ values.v }}|{{ recalled }}"
    seen = rendered(
        ModelController(system=template, user="{{ goal }}!"),
        inputs={"a": 1},
        node_goal="decide",
        commands=[{"name": "c", "description": "", "parameters": {}}],
        budgets={"tokens": Budget(10, 1)},
        committed={"v": 2, "recalled": [3], "_own": 4},
    )
    assert seen == ("the goal|1|decide|c|10|2|[3]", "the goal!")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ inputs.nowhere }}", "nowhere"),
        ("{{ values.x.y }}", "'x'"),
        ("{{ values._own }}", "_own"),
    ],
)
def test_a_name_that_turns_out_not_to_be_there_ends_the_run_and_is_named(
    template: str, name: str
) -> None:
    with pytest.raises(FatalError, match=f"the template 'system' cannot be rendered: .*{name}"):
        rendered(ModelController(system=template), committed={"_own": 1})


@pytest.mark.parametrize(
    "template",
    [
        "{{ goal.__class__.__mro__ }}",
        "{{ inputs.update({'a': 1}) }}",
        "{{ budgets.__init__.__globals__ }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(template: str) -> None:
    with pytest.raises(FatalError, match="cannot be rendered"):
        rendered(ModelController(system=template))


def test_what_the_goal_says_is_no_template() -> None:
    [_, user, *_] = ModelController().messages(
        RoundContext("{{ inputs.x }}", {"a": "{{ 1/0 }}"}), ToolNames(()), tools=True
    )
    assert user.text == "{{ inputs.x }}\n\nInputs:\n- a: {{ 1/0 }}"


def test_at_last_the_model_hears_of_a_person_and_of_budgets_that_are_low() -> None:
    history = History(1, [Turn(Command("c", {}, {}, "i", 0), 1)], lambda start, stop: [])
    context = RoundContext(
        "g",
        history=history,
        committed={"human_feedback": "hurry"},
        budgets={"tokens": Budget(10, 9), "cycles": Budget(9)},
    )
    *_, last = ModelController().messages(context, ToolNames(()), tools=True)
    person, budget = last.text.split("\n\n")
    assert isinstance(last, UserMessage) and person == "A person says: hurry"
    assert budget.startswith(
        "The budget of this run is nearly spent (tokens: 9 of 10 spent). Wrap up"
    )


def test_without_tools_user_and_model_take_turns_whatever_there_is_to_say() -> None:
    turns = [
        Turn(None, {"error": "what?"}),
        *(Turn(Command("c", {}), number) for number in range(9)),
    ]
    history = History(10, turns, lambda start, stop: [])
    controller = ModelController(window={"first": 1, "last": 4})
    said = controller.messages(
        RoundContext("g", history=history, budgets={"tokens": Budget(10, 9)}),
        ToolNames(()),
        tools=False,
    )
    kinds = [type(each).__name__ for each in said]
    assert kinds == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]
    assert said[1].text.startswith('g\n\nObservation: {"error":"what?"}\n\n(Here 7 earlier steps')


def test_without_tools_the_system_prompt_ends_with_the_commands_and_the_form() -> None:
    commands = [{"name": "test.double", "description": "Twice.", "parameters": {"type": "object"}}]
    [system, *_] = ModelController(system="S").messages(
        RoundContext("g", commands=commands), ToolNames(()), tools=False
    )
    assert system.text.startswith("S\n\nReply with one JSON object") and system.text.endswith(
        '- test.double: Twice. {"type":"object"}'
    )


def test_tool_names_are_what_providers_take_and_lead_back() -> None:
    commands = ["read_file", "git.log", "git_log", "a" * 90 + "1", "a" * 90 + "2"]
    names = ToolNames(commands)
    tools = [names.tool(command) for command in commands]
    assert tools[:3] == ["read_file", "git_log", "git_log_2"]
    assert len(set(tools)) == 5 and all(
        re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool) for tool in tools
    )
    assert [names.command(tool) for tool in tools] == commands
    assert (
        names.command("git.log") == "git.log"
        and names.tool("gone.one") == "gone_one"
        and len(tools[3]) == LONGEST
    )


def test_where_nobody_names_a_model_the_error_says_how() -> None:
    with pytest.raises(FatalError, match="no model is configured: use `perdure worker --model"):
        target_of(None, None, None, Endpoint())


def test_a_key_is_looked_up_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TEST_KEY", raising=False)
    with pytest.raises(
        FatalError,
        match="the model's key is env:HF_TEST_KEY, and the environment of this worker has no variable",
    ):
        Target("m", "http://x", KEY).secret()
    monkeypatch.setenv("HF_TEST_KEY", f" {CANARY}\n")
    assert Target("m", "http://x", KEY).secret() == secret_of(KEY, "k") == CANARY
    monkeypatch.setenv("OPENAI_API_KEY", "by-default")
    assert Target("m", "http://x").secret() is None
    assert Target("m", "http://x", by_default=True).secret() == "by-default"
    assert set(Target("m", "http://u:pass%2Fword@x/v1?key=query", KEY).secrets()) >= {
        CANARY,
        "pass/word",
        "pass%2Fword",
        "query",
    }


@pytest.mark.parametrize("value", [CANARY, "env:", "env:A B", "ENV:A", None, 7, f"env:{CANARY}"])
def test_what_is_no_reference_is_refused_unseen(value: Any) -> None:
    with pytest.raises(InvalidFlow, match="never the secret") as caught:
        check_reference(value, "the key")
    assert CANARY not in str(caught.value)
    with pytest.raises(InvalidSettings) as refused:
        load_settings(model_key=str(value))
    assert "model_key" in str(refused.value) and CANARY not in str(refused.value)


def test_secrets_are_scrubbed_in_every_shape_longest_first() -> None:
    assert (
        scrubbed("a/b'c\\d a/b'c\\d-more a\\/b", ["a/b'c\\d", "a/b'c\\d-more", "abc"])
        == f"{HIDDEN} {HIDDEN} a\\/b"
    )
    assert scrubbed(repr({"k": "se'cret\n"}), ["se'cret\n"]) == "{'k': \"[secret]\"}"


def test_a_url_of_a_model_is_shown_without_its_secrets() -> None:
    settings = Settings(model_url="http://user:pass@here/v1?key=query")
    assert "pass" not in repr(settings) + settings.model_dump_json() and "query" not in repr(
        settings
    )


def test_a_flow_whose_packages_are_not_here_is_listed_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources.add_directory(ROOT / "config" / "flows", shipped=True)
    assert make("react").missing is None
    monkeypatch.setattr(
        model_settings, "find_spec", lambda name: None if name == "jinja2" else name
    )
    flow = make("react")
    assert flow.missing is not None and flow.missing.startswith("it needs perdure[ai]")
    assert describe(flow)["missing"] == [flow.missing]
    assert (
        _workers_text("react", {**describe(flow), "paused": False, "workers": []})
        == f"none; {flow.missing}"
    )
    engine = engine_of(
        make_app(Settings(redis_url="redis://nowhere", enabled_flows=("react_shell",)))
    )
    assert "countdown" in engine.flows and not {"react", "react_shell", "react_feedback"} & set(
        engine.flows
    )
    assert "react_shell" not in engine.disabled, "it is enabled, and cannot be played all the same"
    with pytest.raises(
        FatalError, match="this worker cannot send requests to a model: it needs perdure"
    ):
        flow.play("Controller", RoundContext("g"))


def test_the_flows_that_ship_offer_what_they_say() -> None:
    sources.add_directory(ROOT / "config" / "flows", shipped=True)
    names = [each["name"] for each in make("react").schemas()]  # type: ignore[attr-defined]
    assert names == [
        "read_file",
        "write_file",
        "list_files",
        "search_files",
        "http_get",
        "ask_user",
        "finish",
    ]
    assert make("react_shell").runs_shell and not make("react").runs_shell
    assert list(make("react_feedback").nodes) == ["Controller", "Executor", "HumanFeedback"]
    assert all(
        make(name).budgets == {"tokens": 500_000}
        for name in ("react", "react_shell", "react_feedback")
    )
