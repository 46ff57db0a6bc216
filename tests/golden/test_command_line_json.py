"""The command line at work: exit codes and the shape of ``--json``, on a real server."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.engine.redirect import flow_set
from perdure.worker.settings import Settings
from perdure.worker.store.keys import ROLES
from tests.golden.golden_files import compare
from tests.support.command_line import CommandLine, Done
from tests.support.round_driver import Driver, driving, playing

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
    "list in groups": ("list", "--group", "--json"),
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
    "size": ("size", "--runs", "10", "--json"),
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


class Commands:
    """A command line, and a worker that plays the runs after each command."""

    def __init__(self, command_line: CommandLine, worker: Driver) -> None:
        self._command_line, self._worker = command_line, worker
        engine = worker.engine
        own = (engine.store.keys.queue_of_set(role, flow_set(engine.builds)) for role in ROLES)
        engine.own_queues = list(own)
        self._sweeper = worker.sweeper_of_a_worker()

    def __call__(self, *arguments: str) -> Done:
        """Run one command, which sees the worker, and then play."""
        self._sweeper.announce()
        with self._playing(arguments):
            done = self._command_line(*arguments)
        self._worker.sweep_and_play()
        return done

    def _playing(self, arguments: tuple[str, ...]) -> AbstractContextManager[Any]:
        """Play while a command that waits for its own run is running."""
        return playing(self._worker.client.settings) if "--watch" in arguments else nullcontext()


@pytest.fixture
def commands(tmp_path: Path, settings: Settings) -> Iterator[Commands]:
    """Commands in a directory with flows in YAML."""
    library = Path(__file__).parents[2] / "config" / "flows" / "react.yaml"
    (tmp_path / "good.yaml").write_text(library.read_text("utf-8"), "utf-8")
    (tmp_path / "wrong.yaml").write_text("nosuch: 1\n", "utf-8")
    command_line = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=MODULES)
    with driving(settings.model_copy(update={"flow_modules": (MODULES,)})) as worker:
        yield Commands(command_line, worker)


def test_exit_codes_and_shapes_are_those_of_the_golden_file(commands: Commands) -> None:
    reports, token = {}, ""
    for step, arguments in STEPS.items():
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
                if key not in PASSING and (key in FLOWS or not is_of_flow(item, path)):
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


def is_of_flow(value: Any, path: str) -> bool:
    """Return whether this belongs to a flow, in a map by the names of flows."""
    is_described = isinstance(value, dict) and {"first", "nodes", "inputs"} <= set(value)
    return is_described or path.endswith(".builds")


#: What is there only while a worker plays a round, or if the round outlasts a heartbeat.
PASSING = {"holds", "beat_at"}
#: JSON's names for what Python reads.
NAMES = {
    bool: "boolean", dict: "{}", float: "number", int: "number", list: "[]", str: "string",
    type(None): "null",
}  # fmt: skip
