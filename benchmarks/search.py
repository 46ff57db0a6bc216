"""Searches of the list of runs over HTTP. Each key is searched among many runs of twelve flows.

A Chromium then loads the dashboard's pages beside these runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.bulk_runs import INPUTS, settings_of, settle
from benchmarks.listing import control_room, milliseconds
from benchmarks.measure import Measure
from benchmarks.paints import LONG, measure_paints, pages
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report, number
from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.store.keys import Keys

COUNT, QUICK_COUNT = 100_000, 1_000
CALLS, QUICK_CALLS = 11, 3
#: Rounds of the long run whose page is loaded.
ROUNDS, QUICK_ROUNDS = 10_000, 100
#: Greatest time of one page of each search, in milliseconds.
AIM_MS = 100.0
FLOWS = 12
#: The runs are spread evenly over this time: 30 days, in ms.
SPREAD = 30 * 86_400_000
#: Share of each status of a hundred runs, in the order of creation.
STATUSES = (
    ["completed"] * 70 + ["errored"] * 20 + ["queued"] * 5 + ["interrupted"] * 3 + ["stopped"] * 2
)
#: The searches by their name in the report. The last ones match no run: these are the dearest,
#: because a page then looks at as many runs as one page may.
SEARCHES = {
    "newest": "",
    "status": "status:errored",
    "flow": "flow:flow-7",
    "label": "label:team=team-3",
    "words of the goal": '"invoice 4711"',
    "error": 'error:"timeout of the till"',
    "submitter": "by:ann",
    "submitted in the last day": "submitted:<1d",
    "ended on a day of last month": "ended:>20d ended:<21d",
    "beginning of an id": "id:run-00042",
    "oldest": "sort:oldest",
    "longest": "sort:duration",
    "dearest of the errored": "status:errored sort:cost",
    "four keys": 'status:errored flow:flow-7 label:team=team-3 submitted:<9d "invoice"',
    "no such flow": "flow:none",
    "no such words": '"no such words"',
    "no such label": "label:none=none",
    "no such cost": "cost:>1000",
}
#: The search whose page is loaded in a browser, and the run: the first one of `fill`.
PAINTED_SEARCH, FIRST_RUN = "four keys", f"run-{0:05}{0:07}"


def measure(options: Options) -> Report:
    """Fill one server, and request searches and pages.

    One HTTP server serves each search and the dashboard's pages.
    """
    count, calls = (QUICK_COUNT, QUICK_CALLS) if options.quick else (COUNT, CALLS)
    report = Report(
        "search",
        f"GET /api/v1/runs?q= over loopback beside {count:,} runs of {FLOWS} flows, from sending "
        "to the last byte, of one caller; then the first contentful paint of the dashboard's pages "
        "in a Chromium. The state server, the HTTP server and the caller share the machine.",
    )
    with redis_server() as server, control_room(server) as url:
        fill(server, count)
        settle(server)
        for name, line in SEARCHES.items():
            address = f"{url}?{urlencode({'q': line, 'limit': 50})}"
            for _ in range(2):
                milliseconds(address)
            values = tuple(
                sorted(milliseconds(address) for _ in range(calls))[calls // 2]
                for _ in range(options.passes)
            )
            report.measures.append(Measure(name, "ms", values, None))
        slowest = max(report.measures, key=lambda measure: measure.median)
        word = "reached" if slowest.median <= AIM_MS else "NOT reached"
        report.notes.append(
            f"slowest search: {slowest.name}, {number(slowest.median)} ms; aim {AIM_MS:g}: {word}."
        )
        rounds = QUICK_ROUNDS if options.quick else ROUNDS
        paths = {
            **pages(FIRST_RUN, SEARCHES[PAINTED_SEARCH]),
            LONG: f"/runs/{_long_run(server, rounds)}",
        }
        measure_paints(
            report, urlsplit(url)._replace(path="").geturl(), paths, calls, options.passes
        )
    return report


def _long_run(server: RedisServer, rounds: int) -> str:
    """Return a live run with this many rounds."""
    settings = settings_of(server)
    engine = engine_of(make_app(settings))
    with closing(Client(settings=settings)) as client, closing(engine):
        run_id = client.submit("empty", "a long one", INPUTS).id
        for step in range(rounds):
            engine.rounds.run(run_id, 0, step)
    return run_id


def fill(server: RedisServer, count: int) -> None:
    """Store copies of a submitted run. There are ``count``, each with its own fields."""
    keys = Keys()
    with closing(Client(settings=settings_of(server))) as client:
        store = client._store
        # A run that waits for a person has a question, which the inbox reads.
        model, asking = (
            _model(client, interrupt_before=pauses) for pauses in ((), ("Controller",))
        )
        now = store.time()
        for begin in range(0, count, 500):
            with store.redis.pipeline(transaction=False) as pipe:
                for place in range(begin, min(count, begin + 500)):
                    own = dict(_fields_of(place, now - place * SPREAD // count))
                    fields = {**(asking if own["phase"] == "interrupted" else model), **own}
                    run_id, phase = fields["id"], fields["phase"]
                    pipe.hset(keys.run(run_id), mapping=fields)
                    score = fields.get("ended_at", fields["created_at"])
                    index = "live" if phase == "queued" else phase
                    pipe.zadd(keys.index(index), {run_id: int(score)})
                    submitter = keys.submitted(fields["submitted_by"])
                    pipe.zadd(submitter, {run_id: int(fields["created_at"])})
                pipe.execute()


def _model(client: Client, **options: Any) -> dict[str, str]:
    """Return the fields of a run with these options. It is submitted for that, and deleted."""
    run = client.submit(
        "empty", "copied", INPUTS, labels={"team": "-"}, submitted_by="ann", **options
    )
    fields: Any = client._store.redis.hgetall(client._store.keys.run(run.id))
    client.request_stop(run.id, "now")
    client.delete(run.id)
    return dict(fields)


def _fields_of(place: int, ended: int) -> Iterator[tuple[str, str]]:
    phase = STATUSES[place * 37 % len(STATUSES)]
    took = 1_000 * (1 + place * 7919 % 3_600)
    yield from {
        "id": f"run-{place * 7919 % 100_000:05}{place:07}",
        "phase": phase,
        "flow": f"flow-{place % FLOWS}",
        "goal": f"Check invoice {place % 9973} of customer {place % 331} and book it",
        "labels": f'{{"team":"team-{place % 9}","env":"production"}}',
        "submitted_by": ("ann", "bob", "eve")[place % 3],
        "created_at": str(ended - took),
        "updated_at": str(ended),
        "spent": f'{{"tokens":{place % 50_000},"money":{place % 1_000 / 500}}}',
    }.items()
    if phase in ("completed", "errored"):
        yield "ended_at", str(ended)
    if phase == "stopped":
        yield "stopped_at", str(ended)
    if phase == "errored":
        yield "error", f"{'timeout of the till' if place % 3 else 'connection reset'} ({place})"
