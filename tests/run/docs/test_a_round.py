"""docs/internals/a-round.md: each file that it names exists, and its engine files are the files
that a plain round calls.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from perdure import Client
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import runtime_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/internals/a-round.md").read_text("utf-8")
NAMED = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|lua))`", PAGE))


pytestmark = pytest.mark.settings(fetch=False, flow_modules=("tests.support.example_flows.rings",))


def test_each_file_that_the_page_names_exists() -> None:
    paths = {name for name in NAMED if "/" in name or name == "logs.py"}
    assert len(paths) > 15
    assert [name for name in sorted(paths) if not (ROOT / "worker" / name).exists()] == []


def test_the_page_names_each_file_of_the_engine_that_a_plain_round_calls(client: Client) -> None:
    run_id = client.submit("ledger", "g", {"rounds": 9}).id
    rounds = runtime_of(client).rounds
    rounds.run(run_id, 0, 0)
    called: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.parent.name == "engine":
            called.add(f"engine/{path.name}")

    sys.setprofile(look)
    try:
        rounds.run(run_id, 0, 1)
    finally:
        sys.setprofile(None)
    assert called - NAMED - {"engine/drain.py"} == set()
    assert {"engine/rounds.py", "engine/node_runner.py", "engine/commit.py"} <= called
