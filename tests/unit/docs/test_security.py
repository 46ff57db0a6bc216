"""docs/operations/security.md: its users and its bounds are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from perdure import Settings
from perdure.flows.commands.replies import MAX_LENGTH
from perdure.flows.core.json_values import MAX_DEPTH
from perdure.flows.loading.parse import MAX_BYTES
from perdure.flows.loading.parse import MAX_DEPTH as FILE_DEPTH
from perdure.worker.messaging import message
from perdure.worker.operations.validation import MOST_KEY_BYTES, MOST_NOTE_BYTES
from tests.support.acl_permissions import ROLES

ROOT = Path(__file__).parents[3]


def test_the_users_of_the_acl_file_are_those_that_are_documented() -> None:
    text = (ROOT / "docs" / "operations" / "security.md").read_text()
    users = [
        line.split()[1] for line in (ROOT / "config" / "redis.acl").read_text().splitlines() if line
    ]
    assert users == ["default", "operator", *ROLES]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(users)


def test_the_bounds_are_those_that_are_documented() -> None:
    settings = Settings()
    rows = dict(
        re.findall(
            r"^\| ([^|]+) \| (\d[^|]*?) \|",
            (ROOT / "docs" / "operations" / "security.md").read_text(),
            re.MULTILINE,
        )
    )
    kib = 1024
    assert rows["goal"] == f"{settings.max_goal_bytes // kib} KiB"
    assert (
        rows["inputs; an answer; what one round adds"]
        == f"{settings.max_addition_bytes // kib} KiB"
    )
    assert rows["state beside the history"] == f"{settings.max_state_bytes // kib // kib} MiB"
    assert (
        rows["labels and thread id; who stops or pauses, and why"]
        == f"{MOST_NOTE_BYTES // kib} KiB"
    )
    assert rows["idempotency key"] == f"{MOST_KEY_BYTES // kib} KiB"
    assert rows["nesting of any value"] == f"{MAX_DEPTH} levels"
    assert rows["a model's reply that is read"] == f"{MAX_LENGTH // kib // kib} Mi characters"
    assert rows["a flow file"] == f"{MAX_BYTES // kib} KiB, {FILE_DEPTH} levels"
    assert rows["a message"] == f"{message.MAX_BYTES // kib} KiB"
