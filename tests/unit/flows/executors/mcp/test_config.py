"""A flow's MCP servers: checked when the flow is read, without a server, and without showing
possible secrets.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import File
from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.executors.mcp.config import Secrets, refers
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from tests.support.mcp_flow_file import FLOW, written


@pytest.mark.parametrize("named", ["[]", "[read_file]", "{read_file: {description: open}}"])
def test_declared_tools_are_commands_beside_those_that_the_executor_names(
    tmp_path: Path, named: str
) -> None:
    flow = read_flow(written(tmp_path, FLOW % (named, "mcp-server-time")))()
    offered = flow.offered()  # type: ignore[attr-defined]
    assert [name for name in offered if name != "read_file"] == [
        "time.get_current_time",
        "docs.search",
    ]
    assert ("read_file" in offered) == ("read_file" in named)
    assert (offered["docs.search"].idempotent, offered["docs.search"].description) == (True, "look")
    assert not offered["time.get_current_time"].idempotent, (
        "what a server says of that is not believed"
    )


def test_a_flow_says_that_the_extra_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = read_flow(written(tmp_path, FLOW % ("[]", "mcp-server-time")))()
    monkeypatch.setitem(sys.modules, "mcp", None)  # as an import of a missing package sees it
    assert flow.missing is not None and "pip install 'perdure[mcp]'" in flow.missing


CANARY = "hunter2-canary"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({"tools": ["a"]}, "either a command"),
    "both": ({"command": ["x"], "url": "http://x/", "tools": ["a"]}, "either a command"),
    "no tools": ({"command": ["x"], "tools": []}, "tools"),
    "no program": ({"command": [], "tools": ["a"]}, "command"),
    "a secret header": (
        {"url": "http://x/", "headers": {"X-Api-Key": CANARY}, "tools": ["a"]},
        "env:NAME",
    ),
    "a secret variable": (
        {"command": ["x"], "env": {"GITHUB_TOKEN": CANARY}, "tools": ["a"]},
        "env:NAME",
    ),
    "half a reference": (
        {
            "url": "http://x/",
            "headers": {"Authorization": f"Bearer {CANARY} env:X"},
            "tools": ["a"],
        },
        "env:NAME",
    ),
    "a user in the url": ({"url": f"http://u:{CANARY}@x/", "tools": ["a"]}, "no user"),
    "no http": ({"url": f"file:///{CANARY}", "tools": ["a"]}, "http://"),
    "headers of a program": (
        {"command": ["x"], "headers": {"Accept-Language": "de"}, "tools": ["a"]},
        "url",
    ),
    "env of a service": ({"url": "http://x/", "env": {"LANG": "de"}, "tools": ["a"]}, "command"),
    "a name that is none": ({"command": ["x"], "tools": ["a b"]}, "cannot name a command"),
    "an unknown key of a tool": (
        {"command": ["x"], "tools": {"a": {"idempotentt": True}}},
        "idempotentt",
    ),
    "no time": ({"command": ["x"], "tools": ["a"], "timeout_seconds": 0}, "timeout_seconds"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_declaration_that_contradicts_itself_is_refused_without_its_secrets(
    tmp_path: Path, what: str
) -> None:
    given, message = WRONG[what]
    with pytest.raises(InvalidFlow, match=message) as refused:
        mcp_commands("it", **given)
    text = "flow: controller_executor\ncontroller: scripted\nsubflows_config: {Controller: {replies: []}}\nmcp_servers:\n"
    with pytest.raises(InvalidFlowFile, match=message) as unread:
        read_flow(written(tmp_path, f"{text}  it: {given!r}\n".replace("True", "true")))
    assert "line 5" in str(unread.value)
    assert CANARY not in f"{refused.value!r} {unread.value!r}"


def test_two_servers_of_one_name_in_a_flow_are_two_keys(tmp_path: Path) -> None:
    text = (FLOW % ("[]", "x")).replace("docs:", "time:")
    with pytest.raises(InvalidFlowFile, match="duplicate key"):
        read_flow(written(tmp_path, text))


def test_a_reference_is_resolved_where_it_is_used_and_blanked_in_all_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCS", f" {CANARY}\n")
    secrets = Secrets("MCP server 'docs'")
    assert secrets.cleaned(CANARY) == CANARY, "not known before it is used"
    assert secrets.resolved({"Authorization": "Bearer env:DOCS", "Accept": "text"}) == {
        "Authorization": f"Bearer {CANARY}",
        "Accept": "text",
    }
    assert secrets.cleaned({"a": [f"x{CANARY}y", 1, None]}) == {"a": ["x[secret]y", 1, None]}
    file = secrets.cleaned([File(f"{CANARY}.bin", f"\xff{CANARY}".encode("latin-1"))])[0]
    assert (file.name, file.content) == ("[secret].bin", b"\xff[secret]")


@pytest.mark.parametrize("value", ["", "  ", "two\nlines-canary", "bell\x07canary"])
def test_a_reference_to_nothing_that_can_be_sent_names_the_variable_alone(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DOCS", value)
    with pytest.raises(FatalError, match="env:DOCS") as refused:
        Secrets("MCP server 'docs'").resolved({"Authorization": "env:DOCS"})
    assert "canary" not in str(refused.value)


def test_what_a_reference_is() -> None:
    assert refers("env:DOCS_TOKEN") and refers("Bearer env:DOCS_TOKEN")
    assert not any(
        map(refers, ("env:", "env:1", "xenv:A", "env:A B", "Bearer  env:A", "", "env:A\n"))
    )
