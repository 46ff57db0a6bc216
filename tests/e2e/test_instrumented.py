"""Celery's instrumentation sees the same of a round, whether its message was prefetched or
consumed.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings
from perdure.worker.engine.fast_path import REQUEST_ATTRIBUTE
from tests.support.commit_log import exact
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until
from tests.support.workers import workers

ROUNDS = 25
MODULES = ("tests.support.example_flows.rings", "tests.support.apps.celery_signal_recorder")
#: Values that no two rounds share, and values that only a worker with prefetching commits has.
OWN = (
    "id",
    "root_id",
    "parent_id",
    "correlation_id",
    "reply_to",
    "args",
    "argsrepr",
    "hostname",
    "origin",
    "properties",
)


pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


def seen(
    client: Client, settings: Settings, file: Path, pool: str, hears: str, fetch: bool
) -> list[dict[str, Any]]:
    """Return the reports on one run's rounds, in order."""
    told = {
        "SEEN": str(file),
        "HEARS": hears,
        "PERDURE_FETCH": str(fetch).lower(),
        "PERDURE_FLOW_MODULES": ",".join(MODULES),
    }
    with (
        workers(1, settings, "--pool", pool, "--concurrency", "1", **told),
        monitored(client._store) as counts,
    ):
        run = client.submit("ledger", "count", {"rounds": ROUNDS}).id
        client.wait(run, 60)
        # The run has ended; its last round is about to.
        until(lambda: file.read_text().count('"postrun"') >= ROUNDS, "the last round's end", 30)
    assert exact(client, run, ROUNDS)
    assert (counts["claim_round"] < ROUNDS) == fetch
    return [json.loads(line) for line in file.read_text().splitlines()]


def alike(told: dict[str, Any]) -> str:
    """Serialize a report without the values that differ from round to round."""
    request = told.get("request", {})
    kept = {name: type(value).__name__ if name in OWN else value for name, value in request.items()}
    if request:  # the delivery is an attribute of the request, which Celery takes for a header of the message; no headers are {} or None
        kept["headers"] = {
            name: value
            for name, value in (request["headers"] or {}).items()
            if name != REQUEST_ATTRIBUTE
        }
    return json.dumps(
        {
            name: value
            for name, value in {**told, "request": kept}.items()
            if name not in ("task_id", "args", "argsrepr", "body")
        }
    )


@pytest.mark.parametrize(
    ("pool", "hears"),
    [
        ("threads", ""),
        ("solo", "received publish"),
        *(
            pytest.param("threads", more, marks=pytest.mark.slow)
            for more in ("received", "publish")
        ),
    ],
)
def test_it_is_the_same(
    client: Client, settings: Settings, tmp_path: Path, pool: str, hears: str
) -> None:
    fetched = seen(client, settings, tmp_path / "fetched", pool, hears, fetch=True)
    asked = seen(client, settings, tmp_path / "asked", pool, hears, fetch=False)
    steps = [told["args"][2] for told in fetched if told["signal"] == "prerun"]
    assert steps == list(range(ROUNDS))
    for told in fetched:
        if told["signal"] == "prerun":
            request = told["request"]
            assert (request["id"], request["args"], request["argsrepr"]) == (
                told["task_id"],
                told["args"],
                str((*told["args"],)),
            )
            assert (
                request["correlation_id"]
                == request["id"]
                == request["properties"]["correlation_id"]
            )
    heard = Counter(told["signal"] for told in fetched)
    assert heard == dict.fromkeys(
        ("prerun", "postrun", "success", *(["received"] if "received" in hears else [])), ROUNDS
    )
    headers = [told["request"]["headers"] for told in fetched if told["signal"] == "prerun"]
    assert all(
        ("traceparent" in (each or {})) == ("publish" in hears) for each in headers[1:]
    )  # the first was sent by the client
    assert Counter(map(alike, fetched)) == Counter(map(alike, asked))
