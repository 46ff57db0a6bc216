"""Schemathesis: requests made from the OpenAPI document, such as it describes and such as it does
not, against the running API.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest

from perdure.worker.settings import Settings
from tests.support.authenticator import by_name
from tests.support.redis_servers import server
from tests.support.runs_in_every_status import MODULES, every_status
from tests.support.threaded_server import serving
from tests.support.workers import ROOT

#: 404 and 422 say that a request as described is impossible; whether they say more is a check of
#: our own. That U+0000 is refused, wherever a text may stand, is more than a schema can say.
CONFIG = """
hooks = "tests.support.openapi_checks"
continue-on-failure = true
request-timeout = 45
[generation]
allow-x00 = false
[auth.openapi.token]
bearer = "local:admin"
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "403", "404", "409", "422"]
[dictionaries.runs]
values = {runs}
[dictionaries.flows]
values = ["countdown", "question", "wary", "wordy"]
[dictionaries.names]
values = ["countdown", "question", "1-tell"]
[parameters]
"path.run_id" = {{ dictionary = "runs", probability = 0.8 }}
"path.name" = {{ dictionary = "names", probability = 0.8 }}
"body.flow" = {{ dictionary = "flows", probability = 0.8 }}
"""


@pytest.fixture(scope="module")
def seeded() -> Iterator[tuple[str, list[str]]]:
    """The address of a web server, and the ids of runs in every status on it."""
    with server("valkey", "everysec") as mine:
        settings = Settings(redis_url=mine.url, flow_modules=MODULES)
        ids = list(every_status(settings).values())
        with serving(settings, by_name) as address:
            # The first request makes the document, and Schemathesis waits for it for 10 s at most.
            httpx2.get(f"{address}/api/v1/openapi.json", timeout=100).raise_for_status()
            yield address, ids


def requests_made(
    seeded: tuple[str, list[str]], directory: Path, options: Sequence[str], seconds: float
) -> int:
    """Run Schemathesis, which must find nothing; return the number of its requests."""
    address, ids = seeded
    (directory / "schemathesis.toml").write_text(CONFIG.format(runs=json.dumps(ids)), "utf-8")
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"{address}/api/v1/openapi.json",
            "--no-color",
            *options,
        ],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated is not None, done.stdout
    return int(generated[1])


@pytest.mark.slow
def test_nothing_is_found_at_a_glance(seeded: tuple[str, list[str]], tmp_path: Path) -> None:
    """A request or two of each kind."""
    assert (
        requests_made(
            seeded, tmp_path, ["--phases", "fuzzing", "--max-examples", "1", "--seed", "1"], 100
        )
        > 24
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(960)
def test_nothing_is_found_by_all_that_it_knows(
    seeded: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Every boundary of every field, violations of it, other methods, calls in sequence; different
    ones each time.
    """
    assert requests_made(seeded, tmp_path, ["--max-examples", "25"], 900) > 1_000
