"""docs/guides/notifications.md: its rules are settings, its receiver verifies, and its commands can
be given.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from perdure import Settings
from perdure.worker.cli.main import perdure
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import RunStatus
from perdure.worker.features.notifications.notification import notification_of
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.webhooks import signed_headers
from tests.support.pending_interrupts import NOW, a_run
from tests.support.webhook_receiver import SECRET

TEXT = (Path(__file__).parents[3] / "docs/guides/notifications.md").read_text("utf-8")


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[number]


def test_the_rules_are_settings_and_choose_what_they_say() -> None:
    settings = Settings(**tomllib.loads(block("toml")))
    on_call, questions, report = settings.notify.values()
    assert on_call.events == {"errored", "in_doubt"} and report.task == "reports.file"
    assert on_call.matches("billing-monthly", {"env": "production", "x": "y"}, None)
    assert not on_call.matches("billing-monthly", {"env": "test"}, None)
    assert questions.matches("any", {}, "ann") and not questions.matches("any", {}, None)


def test_every_key_of_a_rule_is_described() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named >= set(NotificationRule.model_fields)


def test_the_receiver_of_the_guide_takes_what_is_signed_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module: dict[str, Any] = {}
    exec(block("python"), module)
    body = block("json").encode()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    for _ in range(2):
        headers = signed_headers("msg_1", int(time.time()), body, [b"an old one", key])
        assert module["receive"](body, headers, SECRET) == 204
    assert capsys.readouterr().out == "run.waiting k3x9\n"
    assert module["receive"](body + b" ", headers, SECRET) == 401
    assert module["receive"](body, {**headers, "webhook-id": "msg_2"}, SECRET) == 401


def test_the_body_of_the_guide_has_the_members_that_are_sent() -> None:
    run = a_run("approval", RunStatus.INTERRUPTED, epoch=0)
    assert PendingInterrupt.of(run) is not None
    sent = notification_of("r", "waiting", run, "https://x.example", NOW).body
    shown = json.loads(block("json"))
    assert shown.keys() == sent.keys() and shown["data"].keys() == sent["data"].keys()
    assert shown["data"]["question"].keys() == sent["data"]["question"].keys()


def test_the_commands_of_the_guide_can_be_given() -> None:
    lines = [line[2:] for line in block("console").splitlines() if line.startswith("$ ")]
    lines += [line for line in block("sh", 1).splitlines() if line.startswith("perdure")]
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command: Any = perdure
        with click.Context(command) as context:
            while isinstance(command, click.Group):
                _, command, words = command.resolve_command(context, words)
        command.make_context("perdure", words)
    assert len(lines) == 6
