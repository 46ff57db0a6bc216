"""The command line at work: exit codes and the shape of ``--json``, on a real server and worker."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.settings import Settings
from tests.conftest import StartsWorkers
from tests.golden.golden_files import compare
from tests.golden.shell import Shell, shell
from tests.support.command_line import CommandLine, Done
from tests.support.redis_servers import until

MODULES = "tests.golden.session"
#: The flows whose descriptions are compared; what those of tests look like is their own affair.
FLOWS = ("bisect", "charging", "countdown")
#: Keys whose values are words of the contract.
WORDS = ("check", "code", "kind", "mode", "phase", "status", "type", "waiting_for")
#: These answer with the run as it is a moment later, when the worker may be at it already.
RACING = ("resume", "resume an approval", "retry")
#: What is run, in this order.
STEPS: dict[str, tuple[str, ...]] = {
    "submit": ("submit", "charging", "charge it", "--id", "done", "--label", "team=a",
               "--budget", "tokens=1000", "--idempotency-key", "k", "--by", "ann", "--json"),
    "submit with other content": ("submit", "charging", "more", "--idempotency-key", "k"),
    "submit with an id in use": ("submit", "charging", "charge it", "--id", "done"),
    "submit a question": ("submit", "question", "which?", "--id", "asks", "--json"),
    "submit an approval": ("submit", "wary", "tidy up", "--id", "refused", "--json"),
    "submit a failure": ("submit", "trouble", "fail", "--id", "fails",
                         "--input-json", 'kind="fatal"', "--json"),
    "submit a long result": ("submit", "wordy", "tell", "--id", "wordy", "--json"),
    "submit for later": ("submit", "countdown", "later", "--id", "later", "--not-before", "1h",
                         "--deadline", "2h", "--json"),
    "submit another for later": ("submit", "countdown", "later", "--not-before", "1h", "--json"),
    "submit unknown flow": ("submit", "nosuch", "x", "--json"),
    "submit without goal": ("submit", "countdown"),
    "submit wrong input": ("submit", "countdown", "x", "--input", "rounds=many"),
    "submit and watch": ("submit", "countdown", "x", "--id", "seen", "--watch", "--json"),
    "wait for completed": ("wait", "done", "--json"),
    "submit again": ("submit", "charging", "charge it", "--id", "done", "--label", "team=a",
                     "--budget", "tokens=1000", "--idempotency-key", "k", "--by", "ann", "--json"),
    "wait for errored": ("wait", "fails", "--json"),
    "wait for interrupted": ("wait", "asks", "--json"),
    "wait for approval": ("wait", "refused", "--json"),
    "wait for long result": ("wait", "wordy", "--json"),
    "wait too short": ("wait", "later", "--timeout", "0.1s", "--json"),
    "show completed": ("show", "done", "--json"),
    "show transcript": ("show", "done", "--transcript", "--json"),
    "show interrupted": ("show", "asks", "--json"),
    "show waiting": ("show", "later", "--json"),
    "show errored": ("show", "fails", "--json"),
    "show artifact": ("show", "wordy", "--artifact", "1-tell"),
    "show unknown artifact": ("show", "wordy", "--artifact", "nosuch"),
    "show unknown run": ("show", "nosuch", "--json"),
    "watch completed": ("watch", "done", "--json"),
    "watch errored": ("watch", "fails", "--json"),
    "watch interrupted": ("watch", "asks", "--json"),
    "history of no graph": ("history", "done", "--json"),
    "history unknown run": ("history", "nosuch", "--json"),
    "list": ("list", "--json"),
    "list by status": ("list", "--status", "errored", "--json"),
    "list by flow": ("list", "--flow", "nosuch", "--json"),
    "list by wrong status": ("list", "--status", "nosuch"),
    "why completed": ("why", "done", "--json"),
    "why interrupted": ("why", "asks", "--json"),
    "why errored": ("why", "fails", "--json"),
    "why waiting": ("why", "later", "--json"),
    "why unknown run": ("why", "nosuch"),
    "inbox": ("inbox", "--json"),
    "resume completed": ("resume", "done", "--json"),
    "resume no JSON": ("resume", "asks", "--answer", "{"),
    "resume stale": ("resume", "asks", "--answer", "1", "--interrupt", "9:9"),
    "resume": ("resume", "asks", "--answer", '"this"', "--by", "ann", "--json"),
    "resume an approval": ("resume", "refused", "--refuse", "no", "--json"),
    "resume unknown run": ("resume", "nosuch"),
    "stop": ("stop", "later", "--reason", "enough", "--by", "ann", "--json"),
    "stop again": ("stop", "later", "--json"),
    "stop many": ("stop", "--flow", "countdown", "--yes", "--json"),
    "stop unknown run": ("stop", "nosuch", "--json"),
    "stop nothing named": ("stop",),
    "wait for stopped": ("wait", "later", "--json"),
    "watch stopped": ("watch", "later", "--json"),
    "show stopped": ("show", "later", "--json"),
    "why stopped": ("why", "later", "--json"),
    "retry completed": ("retry", "done"),
    "retry unknown run": ("retry", "nosuch"),
    "retry": ("retry", "fails", "--json"),
    "wait for retried": ("wait", "fails", "--json"),
    "retry many": ("retry", "--all", "--yes", "--json"),
    "wait for retried again": ("wait", "fails", "--json"),
    "delete": ("delete", "done", "--json"),
    "delete unknown run": ("delete", "done"),
    "delete many": ("delete", "--status", "errored", "--yes", "--json"),
    "flows": ("flows", "--json"),
    "flows named": ("flows", "countdown", "--json"),
    "flows unknown": ("flows", "nosuch", "--json"),
    "flows check": ("flows", "check", "good.yaml", "--json"),
    "flows check a wrong one": ("flows", "check", "wrong.yaml", "--json"),
    "flows pause": ("flows", "pause", "countdown", "--reason", "a pause", "--json"),
    "submit to a paused flow": ("submit", "countdown", "x", "--id", "held", "--json"),
    "why paused": ("why", "held", "--json"),
    "delete a live one": ("delete", "held", "--json"),
    "flows unpause": ("flows", "unpause", "countdown", "--json"),
    "workers": ("workers", "--json"),
    "doctor": ("doctor", "--json"),
    "token list of none": ("token", "list", "--json"),
    "token create": ("token", "create", "ann", "--scope", "read", "--expires", "1d", "--json"),
    "token list": ("token", "list", "--json"),
    "token revoke": ("token", "revoke", "{token}", "--json"),
    "token revoke unknown": ("token", "revoke", "nosuch", "--json"),
    "token sign-out": ("token", "sign-out", "--json"),
    "unknown command": ("nosuch",),
    "unknown option": ("list", "--nosuch"),
    "no server": ("list", "--url", "redis://localhost:1", "--json"),
    "no URL": ("list", "--url", "nosuch", "--json"),
    "help": ("--help",),
    "version": ("--version",),
}  # fmt: skip


@pytest.fixture
def commands(tmp_path: Path, settings: Settings, worker_process: StartsWorkers) -> Iterator[Shell]:
    """A shell in a directory with flows in YAML; a worker plays the runs meanwhile."""
    library = Path(__file__).parents[3] / "config" / "flows" / "react.yaml"
    (tmp_path / "good.yaml").write_text(library.read_text("utf-8"), "utf-8")
    (tmp_path / "wrong.yaml").write_text("nosuch: 1\n", "utf-8")
    worker_process(PERDURE_FLOW_MODULES=MODULES)
    with shell(CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=MODULES)) as started:
        yield started


def test_exit_codes_and_shapes_are_those_of_the_golden_file(commands: Shell) -> None:
    reports, token = {}, ""
    for step, arguments in STEPS.items():
        if step == "why paused":  # a worker has to refuse its message first
            until(
                lambda: commands("show", "held", "--json").json["phase"] == "waiting",
                "the run of the paused flow to wait",
            )
        done = commands(
            *(text.format(token=token) if text == "{token}" else text for text in arguments)
        )
        token = done.json["id"] if step == "token create" else token
        reports[step] = report(step, done)
    compare("command_line_json", reports)


def report(step: str, done: Done) -> dict[str, Any]:
    """Return a command's arguments and exit code, and what its JSON looks like."""
    reported: dict[str, Any] = {"arguments": " ".join(STEPS[step]), "exit code": done.code}
    documents = (
        [json.loads(line) for line in done.out.splitlines()] if "--json" in STEPS[step] else []
    )
    if not documents:
        reported["prints"] = bool(done.out)
    elif step in RACING:
        reported["keys"] = set(documents[0])
    else:
        reported["json"] = shape(documents if "watch" in step else documents[0])
    return reported


def shape(value: Any) -> dict[str, str]:
    """Return the paths in a JSON document with the types (or words) that are found there."""
    types: dict[str, set[str]] = defaultdict(set)

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict) and part:
            for key, item in part.items():
                if key not in PASSING and (not is_flow(item) or key in FLOWS):
                    walk(item, f"{path}.{key}")
        elif isinstance(part, list) and part:
            for item in part:
                walk(item, f"{path}[]")
        elif isinstance(part, str) and path.rpartition(".")[2] in WORDS:
            types[path].add(part)
        else:
            types[path].add(NAMES[type(part)])

    walk(value, "")
    return {path: " | ".join(sorted(names)) for path, names in types.items()}


def is_flow(value: Any) -> bool:
    """Return whether this is the description of a flow, in a map of flows by name."""
    return isinstance(value, dict) and {"first", "nodes", "inputs"} <= set(value)


#: What is there only while a worker plays a round, or if the round outlasts a heartbeat.
PASSING = {"holds", "beat_at"}
#: JSON's names for what Python reads.
NAMES = {
    bool: "boolean", dict: "{}", float: "number", int: "number", list: "[]", str: "string",
    type(None): "null",
}  # fmt: skip
