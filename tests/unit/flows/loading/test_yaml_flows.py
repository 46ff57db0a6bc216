"""Flows written in YAML: a file's allowed keys, the refused ones, and the form of errors."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import (
    BranchingFlow,
    ControllerExecutorFlow,
    FlowNotFound,
    InvalidAnswer,
    InvalidFlow,
    InvalidInput,
    RoundContext,
    command,
    controller,
    load_failures,
    make,
    node,
    register,
    registered,
)
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from perdure.flows.loading.parse import MAX_BYTES, MAX_DEPTH, read_text
from perdure.flows.rings.config import ControllerExecutorConfig
from perdure.flows.rounds import registry
from tests.support.cases import EachCase, cases_named, name_of
from tests.support.example_flows import yaml_flow_parts as written
from tests.support.flow_player import play_through
from tests.support.flow_registry import folder

__all__ = ["folder"]

ROOT = Path(__file__).parents[4]
GOOD = """\
flow: controller_executor
controller: doubling
subflows_config:
  Controller: {limit: 4}
  Executor: {subflows_config: [test.double]}
"""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registered()  # shipped modules are imported once a process: they must stay
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_failures", {})
    monkeypatch.setattr(sources, "_directories", Directories())
    sources.add_directory(written.DIRECTORY)


def faults_of(folder: Path, text: str | bytes) -> list[str]:
    """Return all faults of a file with this text."""
    path = folder / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(path)
    return [str(fault) for fault in caught.value.faults]


def test_the_configuration_of_the_seed_has_the_defaults_of_the_class() -> None:
    """The shipped file agrees with the code: all its keys, with the values that hold without it."""
    text = read_text((ROOT / "config/flows/controller_executor.yaml").read_bytes(), "f").data
    config = ControllerExecutorConfig()
    for key in (
        "name",
        "description",
        "max_rounds",
        "early_exit_key",
        "topology",
        "max_bad_replies",
    ):
        assert text[key] == getattr(config, key), key
    finish = config.subflows_config.Controller.finish
    assert text["subflows_config"]["Controller"]["finish"] == {
        "description": finish.description,
        "input_args": finish.input_args,
    }
    assert set(ControllerExecutorConfig.model_fields) - set(text) == {
        "interrupt_before",
        "interrupt_after",
    }


@pytest.mark.parametrize(
    "path", sorted((ROOT / "config/flows").iterdir()), ids=lambda path: str(path.name)
)
def test_every_file_that_ships_is_a_flow_without_any_module(path: Path) -> None:
    flow = read_flow(path)()
    assert flow.description
    assert flow.first_node in ("Controller", "MemoryRead")


def test_a_file_is_found_by_its_name_and_every_call_makes_a_fresh_flow() -> None:
    assert {"doubler", "watched", "remembering", "counting", "choosing"} <= set(registered())
    first, second = make("doubler"), make("doubler")
    assert first is not second
    assert isinstance(first, ControllerExecutorFlow)
    assert (first.name, first.max_rounds, first.description) == (
        "doubler",
        8,
        "Doubles until it is enough.",
    )
    assert [schema["description"] for schema in first.schemas()] == [
        "Makes it twice as much.",
        first.finish.description,
    ]
    assert load_failures() == {}


def test_what_is_written_is_what_runs() -> None:
    assert play_through(lambda: make("doubler")).observations == [2, 4, 8, 16, 32]
    branching = make("choosing")
    assert isinstance(branching, BranchingFlow)
    played = play_through(
        branching, inputs={"branch": "test.double", "branch_input_data": {"number": 4}}
    )
    assert played.end is not None and played.end.answer == 8


def test_a_node_of_a_ring_has_the_goal_and_the_interfaces_of_the_file() -> None:
    flow = make("watched")
    assert isinstance(flow, ControllerExecutorFlow)
    feedback = flow.topology[2]
    assert (feedback.goal, feedback.reset, feedback.role) == (
        "Say whether this leads anywhere.",
        True,
        "executor",
    )
    assert feedback.input_interface == {"rename": {}, "select": ["goal", "observation"]}
    assert flow.topology[0].role == "controller"


def test_inputs_are_checked_and_completed() -> None:
    flow = make("counting")
    assert flow.check_inputs({}) == {"times": 2}
    assert flow.check_inputs({"times": "3"}) == {"times": 3}  # as the command line gives it
    for wrong, words in [
        ({"times": "many"}, "times: Input should be a valid integer"),
        ({"tmes": 1}, "no input named tmes"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            flow.check_inputs(wrong)


def test_inputs_are_required_unless_the_file_says_otherwise(folder: Path) -> None:
    (folder / "mine.yaml").write_text(
        "flow: circular\ntopology: [{name: A, flow: test.count}]\n"
        "inputs:\n  needed: {type: array}\n  spare: {type: number, required: false}\n  anything: {default: [1]}\n"
    )
    flow = read_flow(folder / "mine.yaml")()
    assert flow.check_inputs({"needed": [1]}) == {"needed": [1], "spare": None, "anything": [1]}
    with pytest.raises(InvalidInput, match="needed: Field required"):
        flow.check_inputs({})


@pytest.mark.parametrize(
    ("errors", "told"),
    [(" {}", None), (" {errors: observe}", {"error": "ValueError: no such page"})],
)
def test_a_command_that_fails_in_a_ring_of_code_fails_its_round_unless_the_file_says_otherwise(
    folder: Path, errors: str, told: Any
) -> None:
    @command(name="test.fails", idempotent=True)
    def fails() -> None:
        raise ValueError("no such page")

    (folder / "mine.yaml").write_text(
        "flow: circular\nmax_rounds: 1\ntopology: [{name: A, flow: Tools}]\ninputs: {branch: {default: test.fails}}\n"
        f"subflows_config: {{Tools: {{subflows_config: {{test.fails:{errors}}}}}}}\n"
    )
    if told is None:
        with pytest.raises(ValueError, match="no such page"):
            play_through(read_flow(folder / "mine.yaml"))
    else:
        assert play_through(read_flow(folder / "mine.yaml")).values["branch_output_data"] == told


# Faults are reported with file, line and key.


#: Text of a file, the line and the key that its fault names, and words of the fault.
FAULTS = [
    (
        "flow: controler_executor\ncontroller: person\n",
        1,
        "flow",
        "no shape of flows is named 'controler_executor'; did you mean 'controller_executor'?",
    ),
    (
        "name: x\n",
        1,
        "flow",
        "the key flow is missing; Known: branching, circular, controller_executor",
    ),
    (GOOD + "max_round: 3\n", 6, "max_round", "unknown key; did you mean 'max_rounds'?"),
    (GOOD + "max_rounds: 0\n", 6, "max_rounds", "greater than or equal to 1, not 0"),
    (GOOD + "max_rounds: many\n", 6, "max_rounds", "valid integer, not 'many'"),
    (
        GOOD + "interrupt_before:\n  - Executer\n",
        7,
        "interrupt_before[0]",
        "no node is named 'Executer'; did you mean 'Executor'?",
    ),
    (GOOD + "early_exit_key: a b\n", 6, "early_exit_key", "at most 100 characters, not 'a b'"),
    (
        GOOD + "lease_seconds: .5e+1\nround_timeout_seconds: -1\n",
        7,
        "round_timeout_seconds",
        "greater than 0",
    ),
    (
        GOOD.replace("doubling", "dubling"),
        2,
        "controller",
        "no controller is named 'dubling'; did you mean 'doubling'?",
    ),
    (
        GOOD.replace("4", "4, strat: 1"),
        4,
        "subflows_config.Controller.strat",
        "no such setting; did you mean 'start'?",
    ),
    (
        GOOD.replace("limit: 4", ""),
        4,
        "subflows_config.Controller.limit",
        "this key is missing; controller 'doubling' requires it",
    ),
    (
        GOOD.replace("limit: 4", "limit: 4, finish: {input_args: [x]}"),
        4,
        "subflows_config.Controller.finish.input_args",
        "'answer' among",
    ),
    (
        GOOD.replace("test.double", "test.duble"),
        5,
        "subflows_config.Executor.subflows_config[0]",
        "did you mean 'test.double'?",
    ),
    (
        GOOD.replace("[test.double]", "[finish]"),
        5,
        "subflows_config.Executor.subflows_config[0]",
        "'finish' ends the run",
    ),
    (
        GOOD.replace("Executor:", "Executer:"),
        5,
        "subflows_config.Executer",
        "did you mean 'Executor'?",
    ),
    (
        GOOD.replace("[test.double]", "{test.double: {describtion: x}}"),
        5,
        "subflows_config.Executor.subflows_config.test.double.describtion",
        "did you mean 'description'?",
    ),
    (GOOD + "topology: [3]\n", 6, "topology[0]", "it should be a mapping, not 3"),
    (
        "flow: circular\ntopology:\n- {name: A, sleep: 30, flow: test.count}\n",
        3,
        "topology[0].sleep",
        "a node has one of flow, run, sleep, until, wait_for; this one has flow already",
    ),
    (
        "flow: circular\ntopology:\n- {name: A, sleep: -1}\n",
        3,
        "topology[0].sleep",
        "it should be greater than 0, not -1",
    ),
    (
        "flow: circular\ntopology:\n- {name: A, wait_for: {signals: paid}}\n",
        3,
        "topology[0].wait_for.signals",
        "unknown key; did you mean 'signal'? Known: into, signal, timeout",
    ),
    (
        GOOD + "topology:\n- name: Controller\n- {name: Executor, sleep: 3}\n",
        8,
        "topology[1].sleep",
        "the node Executor always runs Executor; put the wait into a node of its own",
    ),
    (
        GOOD + "topology: square\n",
        6,
        "topology",
        "it should be 'circular' or it should be a list, not 'square'",
    ),
    (
        GOOD + "topology:\n- {name: Executor}\n- {name: Controller}\n",
        6,
        "topology",
        "expected one node named Controller, and after it",
    ),
    (
        GOOD + "topology:\n- name: Controller\n- name: Executor\n  flw: Executor\n",
        9,
        "topology[1].flw",
        "did you mean 'flow'?",
    ),
    (
        GOOD
        + "topology:\n- name: Controller\n- name: Executor\n- name: Person\n  flow: human_feedbak\n",
        10,
        "topology[2].flow",
        "no node is named 'human_feedbak'; did you mean 'human_feedback'?",
    ),
    (
        GOOD + "topology:\n- name: Controller\n- name: Executor\n- name: A\n",
        9,
        "topology[2].flow",
        "this key is missing",
    ),
    (
        GOOD
        + "topology:\n- name: Controller\n- name: Executor\n  input_interface: comand_to_branch\n",
        9,
        "topology[1].input_interface",
        "did you mean 'command_to_branch'?",
    ),
    (
        GOOD
        + "topology:\n- name: Controller\n- name: Executor\n  input_interface:\n    rename: {a: b}\n",
        10,
        "topology[1].input_interface.rename",
        "did you mean 'keys_to_rename'?",
    ),
    ("flow: circular\ntopology: []\n", 2, "topology", "it should not be empty, not []"),
    (
        "flow: circular\ntopology:\n- {name: A, flow: test.count}\n- {name: A, flow: test.count}\n",
        4,
        "topology[1].name",
        "two nodes",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\nanswer: {a: {type: text}}\n",
        3,
        "answer.a.type",
        "not 'text'",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\nanswer: {json: {}}\n",
        3,
        "answer.json",
        "cannot name an entry of the answer",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\nanswer: text\n",
        3,
        "answer",
        "not 'text'",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\nlifespan: nothing\n",
        3,
        "lifespan",
        "no lifespan is named 'nothing'",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\ninputs: {a: {type: text}}\n",
        3,
        "inputs.a.type",
        "not 'text'",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\ninputs: {json: {}}\n",
        3,
        "inputs.json",
        "cannot name an input",
    ),
    (
        "flow: circular\ntopology: [{name: A, flow: test.count}]\ninputs: {a: {type: integer, default: x}}\n",
        3,
        "inputs.a.default",
        "'x'",
    ),
    ("flow: branching\n", 1, "subflows_config", "this key is missing"),
]


def test_an_error_names_file_line_and_key_and_the_nearest_known_one(
    folder: Path, each_case: EachCase
) -> None:
    def check(text: str, line: int, key: str, words: str) -> None:
        [fault] = faults_of(folder, text)
        assert fault.startswith(f"flows/mine.yaml, line {line}, key {key}: "), fault
        assert words in fault

    each_case(cases_named((f"{row[2]}: {row[3]}", row) for row in FAULTS), check)


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    text = (
        GOOD.replace("doubling", "nobody").replace("test.double", "nothing")
        + "interrupt_after: [Nowhere]\n"
    )
    lines = [fault.split(",")[1] for fault in faults_of(folder, text)]
    assert lines == [" line 2", " line 5", " line 6"]


def test_the_faults_of_all_stages_are_told_at_once_by_line(folder: Path) -> None:
    """A wrong shape, key, value, setting, controller, command and node: each is mended at the first
    reading.
    """
    text = (
        "flow: controler_executor\ncontroller: nobody\nmax_round: 0\nlease_seconds: -1\n"
        "subflows_config:\n  Executer:\n    subflows_config:\n      test.duble: {in_doubt: never}\n      test.double: 3\n      other: 4\n"
        "topology:\n- name: Controller\n- nam: Executor\n- {name: Person, flow: human_feedbak}\n- 7\ninterrupt_before: [Persn]\n"
    )
    told = [re.sub("^flows/mine.yaml, line ", "", fault) for fault in faults_of(folder, text)]
    executor = "subflows_config.Executer.subflows_config"
    assert [fault.partition(":")[0].replace(" key ", " ") for fault in told] == [
        "1, flow", "2, controller", "3, max_round", "3, max_round", "4, lease_seconds", "6, subflows_config.Executer",
        f"8, {executor}.test.duble.in_doubt", f"8, {executor}.test.duble", f"9, {executor}.test.double",
        f"10, {executor}.other", f"10, {executor}.other", "13, topology[1].nam", "14, topology[2].flow", "15, topology[3]",
    ]  # fmt: skip
    missing = [fault for fault in told if "flow_modules (PERDURE_FLOW_MODULES" in fault]
    assert [fault.partition(",")[0] for fault in missing] == ["2", "8", "10", "14"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            "flow: ring\ntopologi: [{nam: A, flow: test.count}]\ninterrupt_after: [A]\n",
            ["flow", "topologi", "topologi[0].nam"],
        ),
        ("flow: xyz\nname: x\n", ["flow"]),
        (
            "flow: circular\ntopology: [{name: a b, flow: test.count}]\ninterrupt_after: [a b]\n",
            ["topology[0].name"],
        ),
        (
            "flow: circular\ntopology: [{nothing: A, flow: test.count}]\ninterrupt_after: [A]\n",
            ["topology[0].name", "topology[0].nothing"],
        ),
        ("flow: circular\ntopology: 3\ninterrupt_after: [A]\n", ["topology"]),
        (
            "flow: circular\ntopology: [{name: A, flow: part}]\nsubflows_config: {part: {subflows_config: [nothing]}}\n",
            ["subflows_config.part.subflows_config[0]"],
        ),
        (
            "flow: circular\ntopology: [{name: A, flow: part}]\nsubflows_config: [part]\n",
            ["subflows_config"],
        ),
        (
            GOOD
            + "topology: [{name: Controler}, {name: Executor}]\ninterrupt_before: [Controller]\n",
            ["topology"],
        ),
        (GOOD.replace("limit", "limt"), ["subflows_config.Controller.limt"]),
        (GOOD.replace("{limit: 4}", "3"), ["subflows_config.Controller"]),
        (GOOD + "mcp_servers: {it: {command: 3, tools: [a]}}\n", ["mcp_servers.it.command"]),
        (GOOD + "name: a b\n", ["name"]),
    ],
)
def test_a_fault_that_follows_from_another_is_not_told(
    folder: Path, text: str, keys: list[str]
) -> None:
    assert [re.findall(r", key (.*?): ", fault)[0] for fault in faults_of(folder, text)] == keys


# No file names code.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            GOOD.replace("doubling", "os.system"),
            "key controller: no controller is named 'os.system' (expected a registered name, never an import path)",
        ),
        (
            GOOD.replace("test.double", "subprocess.run"),
            "no command is named 'subprocess.run' (expected a registered name, never an import path)",
        ),
        (
            GOOD.replace("doubling", "'tests.support.example_flows.yaml_flow_parts:Doubling'"),
            "never an import path",
        ),
        (
            GOOD.replace("limit: 4", "_target_: aiflows.ChatFlow"),
            "key subflows_config.Controller._target_: import paths are not accepted",
        ),
        (
            GOOD
            + "topology:\n- {name: Controller}\n- {name: Executor, input_interface: {_target_: os.system}}\n",
            "import paths are not accepted",
        ),
        (
            "flow: !!python/object/apply:os.system ['true']\n",
            "line 1: tags are not accepted: 'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("flow: !!str circular\n", "tags are not accepted"),
        ("flow: !mine circular\n", "tags are not accepted: '!mine'"),
        ("!!set {flow}\n", "tags are not accepted"),
        (
            "%TAG ! tag:yaml.org,2002:python/\n---\nflow: !name:os.system x\n",
            "python/name:os.system'",
        ),
    ],
)
def test_import_paths_and_tags_are_refused(folder: Path, text: str, words: str) -> None:
    [fault] = faults_of(folder, text)
    assert words in fault


# No file grows when it is read, and its values are values of JSON.


#: Text of a file, and words of its fault.
NOT_PLAIN = [
    (b"", "line 1: expected a mapping"),
    (b"- flow\n", "line 1: expected a mapping"),
    (b"\n\njust text\n", "line 3: expected a mapping"),
    (b"flow: [\n", "line 2: invalid YAML"),
    (b"flow: circular\n\tname: x\n", "line 2: invalid YAML: "),
    (
        b"flow: circular\n---\nflow: circular\n",
        "line 2: invalid YAML: expected a single document",
    ),
    (
        b"flow: circular\nflow: branching\n",
        "line 2, key flow: duplicate key, first used on line 1",
    ),
    (b"flow: circular\n1: x\n", "line 2: a key must be text; quote '1'"),
    (b"off: x\n", "line 1: a key must be text; quote 'off'"),
    (b"? [a]\n: b\n", "line 1: a key must be text"),
    (b"<<: {a: b}\n", "line 1: a key must be text; quote '<<'"),
    (b"name: &a x\nflow: *a\n", "line 1: anchors and aliases are not accepted: 'a'"),
    (b"flow: *a\n", "line 1: anchors and aliases are not accepted: 'a'"),
    (
        b"name: 2026-01-01\n",
        "YAML reads '2026-01-01' as a timestamp, which JSON does not have; quote it",
    ),
    (b"name: .nan\n", "'.nan' is not a finite number"),
    (b"name: -.inf\n", "is not a finite number"),
    (b"name: " + b"9" * 5000 + b"\n", "is not valid"),
    (b"name: 99999999999999999999\n", "is too large"),
    (b"name: 1" + b":59" * 1000 + b".5\n", "is not valid"),
    (b'name: "\\ud800"\n', "is not valid"),
    (b'flow: circular\nname: "\\UFFFFFFFF"\n', "line 2: invalid YAML"),
    (b"flow: circular\nname: \xff\n", "line 2: the file is not valid UTF-8"),
    (b"flow: circular\nname: \x07\n", "line 2: the character"),
    (b"flow: " + b"[" * 30_000, f"nested more than {MAX_DEPTH} levels deep"),
    (
        b"".join(b" " * n + b"a:\n" for n in range(300)),
        f"nested more than {MAX_DEPTH} levels deep",
    ),
    (b"name: " + b"x" * MAX_BYTES + b"\n", f"larger than {MAX_BYTES} bytes"),
]


def test_what_is_not_plain_data_is_refused(folder: Path, each_case: EachCase) -> None:
    def check(text: bytes, words: str) -> None:
        [fault] = faults_of(folder, text)
        assert words in fault

    each_case(cases_named((name_of(row[0]), row) for row in NOT_PLAIN), check)


def test_a_billion_laughs_are_refused_at_the_first(folder: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(ord(last) + 1)}: &{chr(ord(last) + 1)} [{', '.join([f'*{last}'] * 9)}]\n"
        for last in "abcdefghij"
    )
    assert faults_of(folder, bomb) == [
        "flows/mine.yaml, line 1: anchors and aliases are not accepted: 'a'; write out the value, or quote the text"
    ]


@given(
    st.one_of(
        st.binary(max_size=400),
        st.text(alphabet="flow: -[]{}&*!|>'\"\\\n\t#%?,x1._~", max_size=400).map(str.encode),
    )
)
def test_any_bytes_are_read_or_refused_with_a_sentence(content: bytes) -> None:
    with suppress(InvalidFlowFile):
        assert isinstance(read_text(content, "f").data, dict)


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    with pytest.raises(
        InvalidFlowFile, match=r"flows/none\.yaml, line 1: the file cannot be read: No such file"
    ):
        read_flow(folder / "none.yaml")


# Directories.


def test_a_broken_file_takes_no_other_flow_away(folder: Path) -> None:
    (folder / "broken.yaml").write_text("flow: circular\n")
    (folder / "good.yml").write_text(GOOD)
    (folder / "readme.txt").write_text("no flow")
    (folder / "folder.yaml").mkdir()
    sources.add_directory(Path("flows"))
    assert "good" in registered()
    assert list(load_failures()) == ["file flows/broken.yaml"]
    with pytest.raises(
        FlowNotFound,
        match=r"could not be loaded: file flows/broken\.yaml .*line 1, key topology: this key is missing",
    ):
        make("broken")
    (folder / "broken.yaml").write_text(GOOD)  # mended, it is there
    assert make("broken").name == "broken"
    assert load_failures() == {}


def test_a_file_may_appear_later_and_the_directory_too(folder: Path) -> None:
    sources.add_directory(Path("flows/later"))
    assert "late" not in registered()
    (folder / "later").mkdir()
    (folder / "later" / "late.yaml").write_text(GOOD)
    assert make("late").name == "late"


def test_a_file_of_ones_own_takes_precedence_over_what_ships(folder: Path) -> None:
    shipped = folder / "shipped"
    shipped.mkdir()
    (shipped / "mine.yaml").write_text(GOOD + "description: ships\n")
    (folder / "mine.yaml").write_text(GOOD + "description: own\n")
    sources.add_directory(folder)
    sources.add_directory(shipped, shipped=True)
    assert make("mine").description == "own"
    registered()
    assert make("mine").description == "own"
    assert load_failures() == {}


def test_two_flows_of_ones_own_of_one_name_are_told(folder: Path) -> None:
    register("mine", make("doubler"))
    (folder / "mine.yaml").write_text(GOOD)
    (folder / "one.yaml").write_text(GOOD + "name: same\n")
    (folder / "two.yaml").write_text(GOOD + "name: same\n")
    sources.add_directory(folder)
    assert make("same").name == "same"
    told = load_failures()
    assert "two flows are named 'mine'" in told["file flows/mine.yaml"]
    assert (
        "two flows are named 'same': flows/one.yaml and flows/two.yaml; rename one"
        in told["file flows/two.yaml"]
    )


# Names.


def test_names_are_unique_and_a_reload_is_not_a_second() -> None:
    def twice(number: int) -> int:
        return 2 * number

    command(name="test.unique")(twice)
    command(name="test.unique")(twice)
    with pytest.raises(InvalidFlow, match=r"two commands are named 'test\.unique'"):

        @command(name="test.unique")
        def other(number: int) -> int:
            return number

    with pytest.raises(InvalidFlow, match="two nodes are named 'human_feedback'"):
        node("human_feedback")(lambda given, context: {})
    with pytest.raises(InvalidFlow, match="cannot name a controller"):
        controller("a b")(written.Doubling)
    with pytest.raises(InvalidFlow, match="cannot name a command"):
        command(name="a b")(twice)


def test_a_method_is_not_registered_by_name() -> None:
    with pytest.raises(
        InvalidFlow, match=r"Flow\.act is a method, which its flow offers under its own name"
    ):

        class Flow(ControllerExecutorFlow):
            @command(name="act")
            def act(self) -> None: ...


def test_a_registered_command_has_its_name_in_python_too() -> None:
    flow = ControllerExecutorFlow(controller=written.Doubling(4), commands=[written.double])
    assert list(flow.offered()) == ["test.double"]


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (lambda: 5, "returns a int; expected a Controller"),
        (lambda: int("x"), "cannot be made from subflows_config.Controller: invalid literal"),
    ],
)
def test_what_makes_no_controller_is_told(
    folder: Path, maker: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.flows.commands.controller import registered_controllers

    monkeypatch.setitem(registered_controllers._things, "test.odd", maker)
    [fault] = faults_of(folder, GOOD.replace("doubling", "test.odd").replace("{limit: 4}", "{}"))
    assert words in fault


# The modules that ship for them.


def test_the_memory_is_bounded() -> None:
    from perdure.flows.rings.memory import (
        KEPT_CHARACTERS,
        KEPT_ENTRIES,
        RECALLED_ENTRIES,
        memory_read,
        memory_write,
    )

    state: dict[str, Any] = {}
    for number in range(50):
        given = {
            **state,
            "command": "say",
            "command_args": {"n": number},
            "observation": "x" * 10_000,
        }
        state |= memory_write(given, RoundContext("g", step=number))
    assert [entry["step"] for entry in state["memory"]] == list(range(50 - KEPT_ENTRIES, 50))
    assert {len(entry["observation"]) for entry in state["memory"]} == {KEPT_CHARACTERS}
    recalled = memory_read(state, RoundContext("g"))["recalled"]
    assert [entry["command_args"]["n"] for entry in recalled] == list(
        range(50 - RECALLED_ENTRIES, 50)
    )
    assert memory_write({}, RoundContext("g")) == {}
    assert memory_read({}, RoundContext("g")) == {"recalled": []}


def test_a_person_may_decide() -> None:
    played = play_through(
        read_flow(ROOT / "config/flows/controller_executor.yaml"),
        answers=[
            {"command": "ask", "command_args": {"question": "?"}},
            7,
            {"command": "finish", "command_args": {"answer": "x"}},
        ],
    )
    assert played.observations == [7]
    assert played.end is not None and played.end.answer == "x"


def test_each_fault_of_a_policy_or_an_approval_is_told_at_its_key(folder: Path) -> None:
    text = """flow: controller_executor
controller: model
retry: {max_attempts: 0, within: 1hh}
subflows_config:
  Executor:
    subflows_config:
      read_file:
        approval:
          deadline: soon
          default: {refus: x}
"""
    keys = [re.findall(r", key (.*?): ", fault)[0] for fault in faults_of(folder, text)]
    approval = "subflows_config.Executor.subflows_config.read_file.approval"
    assert keys == [
        "retry.max_attempts",
        "retry.within",
        f"{approval}.deadline",
        f"{approval}.default",
    ]


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        ("integer", 5, "five"),
        ("{city: {type: string}, euros: {type: number, default: 1}}", {"city": "Oslo"}, {"euros": 2}),
        ("{goal: {type: string}}", {"goal": "x"}, {"goal": "x", "more": 1}),
    ],
)  # fmt: skip
def test_an_answer_is_described_by_one_word_or_by_its_entries(
    tmp_path: Path, answer: str, right: Any, wrong: Any
) -> None:
    file = tmp_path / "told.yaml"
    file.write_text(
        f"flow: circular\ntopology: [{{name: A, flow: test.count}}]\nanswer: {answer}\n"
    )
    flow = read_flow(file)()
    assert flow.answer_type() is flow.answer_type() is not None
    plain = flow.check_answer(right)
    assert plain == ({"city": "Oslo", "euros": 1.0} if "euros" in answer else right)
    with pytest.raises(InvalidAnswer, match="flow 'told': the answer does not fit"):
        flow.check_answer(wrong)


def test_a_file_says_who_else_may_start_its_flow(folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD + "expose: [mcp, openai]\n")
    sources.add_directory(folder)
    assert list(registry.make("mine").expose) == ["mcp", "openai"]
