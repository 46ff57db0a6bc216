"""The imports of pytest to collect a tier: only modules that most of its tests need.

A new process collects each tier, because this one has imported everything already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Packages that cost as much as all of pytest. A test that needs one imports it by itself.
HEAVY = {
    "agents", "anthropic", "boto3", "fastapi", "kubernetes_validate", "langgraph", "langsmith",
    "mcp", "openai", "playwright", "pydantic_ai", "schemathesis", "starlette",
}  # fmt: skip
COLLECT = """
import json, pytest, sys
assert pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", sys.argv[1]]) == 0
print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["tests/unit", "tests/store"])
def test_to_collect_a_tier_no_package_is_imported_that_few_tests_need(tier: str) -> None:
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, tier], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(json.loads(collected.stdout.splitlines()[-1]))
    assert imported & HEAVY == set() and "perdure" in imported
