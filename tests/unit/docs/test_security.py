"""SECURITY.md: every row of its table is shown by tests, and those exist; the users in
docs/operations/security.md are the users of the file.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from perdure import Settings
from perdure.flows.commands.replies import MAX_LENGTH
from perdure.flows.core.json_values import MAX_DEPTH
from perdure.flows.loading.parse import MAX_BYTES
from perdure.flows.loading.parse import MAX_DEPTH as FILE_DEPTH
from perdure.worker.client.validation import MOST_KEY_BYTES, MOST_NOTE_BYTES
from perdure.worker.messaging import message
from tests.support.acl_permissions import ROLES

ROOT = Path(__file__).parents[3]
ROWS = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| **")]
NAMED = re.compile(r"(tests/\S+?\.py)::(test_\w+)")


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) >= 14
    assert all(len(row.split(" | ")) == 4 for row in ROWS), "who, what holds, what does not, tests"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[4:40].partition("**")[0])
def test_each_row_names_tests_that_exist(row: str) -> None:
    shown = row.split(" | ")[3]
    named = NAMED.findall(shown)
    assert named and len(named) == shown.count("::")
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (
            f"{path}::{name}"
        )


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
