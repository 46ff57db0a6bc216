"""Flow files on the command line: the output of ``flows`` and the faults of ``flows check``."""

from __future__ import annotations

from pathlib import Path

from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine

MODULE = "tests.support.example_flows.yaml_flow_parts"


def test_flows_check_reads_a_python_module_too(tmp_path: Path) -> None:
    perdure = CommandLine(
        tmp_path, PERDURE_REDIS_URL="redis://localhost:1/0", PERDURE_FLOW_MODULES="mine"
    )
    text = (
        "from perdure import Steps, workflow\n\n"
        '@workflow("one")\ndef one(steps: Steps):\n    return steps.child("tow")\n\n'
        '@workflow("two", retries=3)\ndef two(steps: Steps):\n    return 2\n'
    )
    (tmp_path / "mine.py").write_text(text)
    done = perdure("flows", "check", "mine.py")
    assert (done.code, done.out) == (2, "")
    child, setting = done.err.splitlines()
    assert child.startswith("mine.py, line 5: no flow is named 'tow'")
    assert setting.startswith("mine.py, line 7: workflow 'two' has no setting 'retries'")
    told = perdure("flows", "check", "mine", "--json").json
    assert [(each["line"], each["key"]) for each in told["errors"]] == [(5, ""), (7, "")]
    (tmp_path / "mine.py").write_text(text.replace("tow", "two").replace(", retries=3", ""))
    done = perdure("flows", "check", "mine.py")
    assert done.code == 0 and done.out.splitlines()[1].startswith("mine.py: valid. Flow two, ")
    told = perdure("flows", "check", "mine.py", "--json").json
    assert (told["ok"], [flow["name"] for flow in told["flows"]]) == (True, ["one", "two"])


def test_flows_check_takes_several_files_and_directories(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path, PERDURE_REDIS_URL="redis://localhost:1/0")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/one.yaml").write_text("flow: controller_executor\ncontroller: person\n")
    (tmp_path / "flows/two.yml").write_text("flow: nope\n")
    (tmp_path / "flows/notes.txt").write_text("no flow")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").write_text(
        'from perdure import Steps, workflow\n\n\n@workflow("sell")\ndef sell(steps: Steps):\n    return 1\n'
    )
    done = perdure("flows", "check", "flows", "shop")
    assert done.code == 2 and done.err.startswith("flows/two.yml, line 1, key flow: ")
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["flows/one.yaml", "shop"]
    told = perdure("flows", "check", "flows", "--json").json
    assert [(each["file"], each["ok"]) for each in told["files"]] == [
        ("flows/one.yaml", True),
        ("flows/two.yml", False),
    ]
    assert perdure("flows", "check", "shop", "--json").json["flows"][0]["name"] == "sell"
    (tmp_path / "empty").mkdir()
    done = perdure("flows", "check", "empty")
    assert done.code == 2 and "the directory empty has no flow in YAML" in done.err


def test_flows_check_tells_all_that_is_wrong_and_needs_no_server(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path, PERDURE_REDIS_URL="redis://localhost:1/0")
    (tmp_path / "mine.yaml").write_text(
        "flow: controller_executor\ncontroller: persn\nmax_round: 3\n"
    )
    done = perdure("flows", "check", "mine.yaml")
    assert (done.code, done.out) == (2, "")
    controller, limit = done.err.splitlines()
    assert controller.startswith(
        "mine.yaml, line 2, key controller: no controller is named 'persn'; did you mean 'person'?"
    )
    assert "flow_modules (PERDURE_FLOW_MODULES" in controller
    assert limit.startswith(
        "mine.yaml, line 3, key max_round: unknown key; did you mean 'max_rounds'?"
    )
    (tmp_path / "mine.yaml").write_text(
        "flow: controller_executor\ncontroller: persn\ninterrupt_before: [Executr]\n"
    )
    done = perdure("flows", "check", "mine.yaml", "--json")
    assert (done.code, done.json["ok"], done.err) == (2, False, "")
    assert [(error["line"], error["key"]) for error in done.json["errors"]] == [
        (2, "controller"),
        (3, "interrupt_before[0]"),
    ]
    (tmp_path / "mine.yaml").write_text("flow: controller_executor\ncontroller: person\n")
    done = perdure("flows", "check", "mine.yaml")
    assert (done.code, done.out) == (
        0,
        "mine.yaml: valid. Flow mine, nodes Controller, Executor, at most 30 cycles, then it ends unfinished\n",
    )
    done = perdure("flows", "check", "mine.yaml", "--json")
    assert (done.code, done.json["ok"], done.json["name"]) == (0, True, "mine")
    (tmp_path / "mine.yaml").write_text(
        "flow: controller_executor\ncontroller: doubling\nsubflows_config: {Controller: {limit: 1}}\n"
    )
    assert perdure("flows", "check", "mine.yaml").code == 2
    assert (
        perdure("flows", "check", "mine.yaml", variables={"PERDURE_FLOW_MODULES": MODULE}).code == 0
    )
    (tmp_path / "mine.yaml").write_text(
        "flow: branching\nsubflows_config:\n  run_shell: {sandbox: {image: a, runtime: podman}}\n"
    )
    done = perdure("flows", "check", "mine.yaml", variables={"PATH": str(tmp_path)})
    assert (done.code, done.err) == (
        0,
        "Workers on this machine cannot run it: it runs commands in containers, and podman is not installed here\n",
    )
    (tmp_path / "mine.yaml").write_text(
        "flow: controller_executor\ncontroller: model\nsubflows_config:\n  Controller:\n"
        "    models: ['openai:gpt-99', {model: own, base_url: 'http://localhost:1/v1'}]\n"
        "    allowed_models: ['anthropic:claude', 'opnai:gpt-5', 'fake:x']\n"
    )
    done = perdure("flows", "check", "mine.yaml")
    assert done.code == 0 and done.out.startswith("mine.yaml: valid.")
    provider, fake = done.err.splitlines()
    assert provider == (
        "mine.yaml: Controller.allowed_models[1]: the model 'opnai:gpt-5' is of no known provider; did you mean 'openai'? "
        "Only a worker with model_url can ask it"
    )
    assert "allowed_models[2]: no model is named 'fake:x'" in fake
    assert len(perdure("flows", "check", "mine.yaml", "--json").json["warnings"]) == 2
    server = {"PERDURE_MODEL_URL": "http://localhost:1/v1"}
    assert perdure("flows", "check", "mine.yaml", variables=server).err == ""
    assert perdure("flows", "check", "missing.yaml").code == 2
    assert perdure("flows", "check").code == 2


def test_flows_check_tells_of_a_name_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config" / "flows").mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "config" / "flows" / f"{name}.yaml").write_text(
            "flow: controller_executor\ncontroller: person\nname: same\n"
        )
    perdure = CommandLine(tmp_path)
    assert perdure("flows", "check", "config/flows/one.yaml").code == 0
    taken = perdure("flows", "check", "config/flows/two.yaml")
    assert taken.code == 2
    assert (
        "two flows are named 'same': config/flows/one.yaml and config/flows/two.yaml; rename one"
        in taken.err
    )


def test_flows_of_the_working_directory_take_the_place_of_those_that_ship(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "config" / "flows").mkdir(parents=True)
    (tmp_path / "config" / "flows" / "mine.yaml").write_text(
        "name: CtrlEx\ndescription: mine\nflow: controller_executor\ncontroller: scripted\n"
        "subflows_config: {Controller: {replies: [{command: finish, command_args: {answer: mine}}]}}\n"
    )
    perdure = CommandLine(tmp_path, settings)
    flows = perdure("flows", "--json").json
    assert flows["CtrlEx"]["description"] == "mine"
    assert "human_feedback" in flows
