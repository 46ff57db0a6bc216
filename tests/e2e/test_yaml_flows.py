"""Flows written in YAML, played by real workers: what a file says is what runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, Run, RunStatus
from perdure.flows import registry
from perdure.flows.human import EXIT_ANSWER
from perdure.flows.yaml_flows.directories import Directories
from perdure.worker.settings import Settings
from tests.conftest import StartsWorkers
from tests.support.command_line import CommandLine
from tests.support.example_flows import yaml_flow_parts as written

MODULE = "tests.support.example_flows.yaml_flow_parts"
pytestmark = pytest.mark.usefixtures("_own_directory")


@pytest.fixture
def _own_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flows of the test are there, also where another test has set the registry back."""
    monkeypatch.setattr(registry, "_directories", Directories())
    registry.add_directory(written.DIRECTORY)


def answered(client: Client, run: Run, *answers: object) -> Run:
    """The run once it has stopped for each answer in turn, and then for something else."""
    for answer in answers:
        waiting = client.wait(run.id, timeout=30)
        assert waiting.status is RunStatus.INTERRUPTED, waiting.error
        client.resume(run.id, answer=answer)
    return client.wait(run.id, timeout=30)


def test_the_configuration_of_the_seed_runs_as_written(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    run = client.wait(client.submit("doubler", "twenty at least").id, timeout=30)
    assert (run.status, run.output) == (RunStatus.COMPLETED, {"answer": 32, "status": "finished"})
    history = client.transcript(run.id)["history"]
    assert [turn["observation"] for turn in history] == [2, 4, 8, 16, 32]
    assert history[0]["command"]["thought"] == "not yet"


@pytest.mark.slow
def test_max_rounds_of_the_file_end_the_run_unfinished(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    run = client.wait(client.submit("doubler", "twenty at least", max_rounds=3).id, timeout=30)
    assert run.output["status"] == "unfinished"
    assert (
        run.answer == "The maximum amount of rounds was reached before the model found an answer."
    )


@pytest.mark.slow
def test_a_ring_with_a_third_node_asks_a_person_after_each_command(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    run = client.submit("watched", "four")
    waiting = client.wait(run.id, timeout=30)
    assert (waiting.state.current_node, waiting.state.interrupt_data) == (
        "HumanFeedback",
        {"observation": 2},
    )
    done = answered(client, run, "go on", "very good")
    assert done.output == {"answer": 4, "status": "finished"}


@pytest.mark.slow
def test_q_leaves_the_run_unfinished_with_the_words_of_the_seed(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    done = answered(client, client.submit("watched", "four"), "q")
    assert EXIT_ANSWER == "The user has chosen to exit before a final answer was generated."
    assert done.status is RunStatus.COMPLETED
    assert done.output == {"answer": EXIT_ANSWER, "status": "unfinished"}


@pytest.mark.slow
def test_a_ring_of_five_remembers_what_came_of_each_turn(
    client: Client, worker_process: StartsWorkers
) -> None:
    """Memory read, controller, executor, human feedback, memory write; the controller goes by nothing but the memory."""
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    done = answered(client, client.submit("remembering", "two turns"), "good", "better")
    assert done.answer == [[1, 2, "good"], [2, 4, "better"]]
    nodes = [
        event.node for event in client.events(done.id, follow=False) if event.type == "committed"
    ]
    ring = ["MemoryRead", "Controller", "Executor", "HumanFeedback", "MemoryWrite"]
    assert nodes == [*ring, *ring, "MemoryRead", "Controller"]


@pytest.mark.slow
def test_a_ring_without_a_controller_and_its_inputs(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    assert client.wait(client.submit("counting", "two").id, timeout=30).output == {
        "answer": 2,
        "doubled": 2,
    }
    assert client.wait(client.submit("counting", "five", {"times": 5}).id, timeout=30).output == {
        "answer": 5,
        "doubled": 8,
    }


def test_a_flow_that_ships_is_decided_by_a_person(
    client: Client, worker_process: StartsWorkers
) -> None:
    """``CtrlEx`` needs nothing but a worker: no module is named, no model is there."""
    worker_process(PERDURE_FLOW_MODULES="")
    ask = {"command": "ask", "command_args": {"question": "Is it raining?"}}
    done = answered(
        client,
        client.submit("CtrlEx", "the weather"),
        ask,
        "yes",
        {"command": "finish", "command_args": {"answer": "rain"}},
    )
    assert done.output == {"answer": "rain", "status": "finished"}


@pytest.mark.slow
def test_the_ring_of_five_that_ships(client: Client, worker_process: StartsWorkers) -> None:
    worker_process(PERDURE_FLOW_MODULES="")
    ask = {"command": "ask", "command_args": {"question": "Is it raining?"}}
    done = answered(
        client,
        client.submit("memory", "the weather"),
        ask,
        "yes",
        "good",
        {"command": "ask", "command_args": {"question": "?"}},
        1,
        "q",
    )
    assert done.output["answer"] == EXIT_ANSWER


def test_a_client_without_the_files_submits_what_a_worker_has_announced(
    settings: Settings, worker_process: StartsWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_process(PERDURE_FLOW_MODULES=MODULE)
    monkeypatch.setattr(registry, "_directories", Directories())
    monkeypatch.setattr(registry, "_sources", {})
    client = Client(settings=settings)
    try:
        flow = client.flows()["counting"]
        assert flow["inputs"]["properties"]["times"] == {
            "default": 2,
            "description": "how often to go round",
            "title": "Times",
            "type": "integer",
        }
        assert (
            client.wait(client.submit("counting", "three", {"times": 3}).id, timeout=30).answer == 3
        )
    finally:
        client.close()


@pytest.mark.slow
def test_a_broken_file_takes_no_flow_away_from_a_worker(
    client: Client, worker_process: StartsWorkers, tmp_path: Path
) -> None:
    """A worker whose flow module adds a directory with one good and one broken file plays the good one."""
    (tmp_path / "broken.yaml").write_text("flow: circular\ntopology: [{name: A, flow: nobody}]\n")
    (tmp_path / "good.yaml").write_text(
        "flow: controller_executor\ncontroller: scripted\nsubflows_config:\n"
        "  Controller: {replies: [{command: finish, command_args: {answer: 1}}]}\n"
    )
    (tmp_path / "two_files.py").write_text(
        "from pathlib import Path\nimport flows\nflows.add_directory(Path(__file__).parent)\n"
    )
    worker_process(PERDURE_FLOW_MODULES="two_files", PYTHONPATH=str(tmp_path))
    announced = client.flows()
    assert "good" in announced
    assert "broken" not in announced
    assert client.wait(client.submit("good", "one").id, timeout=30).answer == 1


def _install(place: Path, name: str, source: str, entry: str) -> None:
    """A tiny distribution, as an installer would leave it."""
    (place / f"{name}.py").write_text(source)
    info = place / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,,\n")
    (info / "entry_points.txt").write_text(f"[perdure.flows]\n{entry}\n")


@pytest.mark.slow
def test_an_installed_package_brings_a_flow_and_what_files_name(
    client: Client, worker_process: StartsWorkers, tmp_path: Path
) -> None:
    """Nothing is set: the entry point alone makes the worker import the package, which adds its files as well."""
    (tmp_path / "from_a_file.yaml").write_text(
        "flow: circular\ntopology: [{name: A, flow: acme.end}]\n"
    )
    source = (
        "from pathlib import Path\n"
        "from perdure import CircularFlow, Finish, Node, add_directory, node\n"
        "@node('acme.end')\n"
        "def end(state, context):\n"
        "    return Finish('from a file')\n"
        "class Plugged(CircularFlow):\n"
        "    topology = (Node('A', lambda state, context: Finish('from a package')),)\n"
        "add_directory(Path(__file__).parent)\n"
    )
    _install(tmp_path, "acme_flows", source, "plugged = acme_flows:Plugged")
    worker_process(PERDURE_FLOW_MODULES="", PYTHONPATH=str(tmp_path))
    assert client.wait(client.submit("plugged", "g").id, timeout=30).answer == "from a package"
    assert client.wait(client.submit("from_a_file", "g").id, timeout=30).answer == "from a file"


# The command line.


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    with perdure.worker():
        assert perdure("submit", "CtrlEx", "g", "--watch", "--json").code == 0
