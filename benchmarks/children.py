"""Child runs: from a child's end to its parent, many at a time, and a stop of a tree."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import pairwise

from benchmarks.measure import Measure, percentile
from benchmarks.processes import until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import client_of
from benchmarks.tally import Tally, tally
from benchmarks.waits import fleet, hops_over_queue, workers
from perdure.worker.client import Client
from perdure.worker.store.keys import Keys

HOPS, QUICK_HOPS = 300, 10
ITEMS, QUICK_ITEMS = 10_000, 1_000
AT_ONCE = 100
#: Children of the root, and children of each of these.
TREE, QUICK_TREE = (10, 100), (2, 3)
STOPS = 4
HOP, STAYING = "hop of a lone run over its queue, p50", "hop that stays with its worker, p50"
PLAIN = "one-round runs that were queued before"
END, SLOWEST = "from a child's end to its parent, p50", "from a child's end to its parent, p99"
MAP, STOP = "children of a map", "stop of a tree, until the last is stopped"
#: Name, unit and base of each measure.
MEASURED = (
    (HOP, "ms", None),
    (STAYING, "ms", HOP),
    (END, "ms", HOP),
    (SLOWEST, "ms", HOP),
    (PLAIN, "runs/s", None),
    (MAP, "runs/s", PLAIN),
    (STOP, "s", None),
)


def measure(options: Options) -> Report:
    """Measure the three in each pass, one by one."""
    report = Report(
        "children",
        "From the end of a lone child to its parent's node beside a hop of a lone run (ms), "
        f"children a second of a map of {AT_ONCE} at a time beside one-round runs that wait in "
        "their queue, and a stop `now` of a tree until its last run is stopped (s). A worker "
        "process for each core.",
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in MEASURED}
    items, hops = (QUICK_ITEMS, QUICK_HOPS) if options.quick else (ITEMS, HOPS)
    for _ in range(options.passes):
        with tally(stamping=True) as listening, fleet(listening) as client:
            found[HOP].append(1000 * percentile(hops_over_queue(client, listening, hops), 0.5))
            found[STAYING].append(1000 * percentile(_hops(client, listening, hops), 0.5))
            ends = [1000 * each for each in _ends(client, listening, hops)]
            found[END].append(percentile(ends, 0.5))
            found[SLOWEST].append(percentile(ends, 0.99))
        found[PLAIN].append(_one_round_runs(items))
        with tally() as listening, fleet(listening) as client:
            found[MAP].append(_map(client, items))
            tree = QUICK_TREE if options.quick else TREE
            found[STOP] += [_stop(client, *tree) for _ in range(1 if options.quick else STOPS)]
    report.measures = [
        Measure(name, unit, tuple(found[name]), base) for name, unit, base in MEASURED
    ]
    return report


def _hops(client: Client, listening: Tally, count: int) -> list[float]:
    """Return the seconds between rounds of a lone run. Its worker keeps the run."""
    before = len(listening.began)
    client.wait(client.submit("empty", "go", {"rounds": count}).id, 120)
    until(lambda: len(listening.began) >= before + count, "the last stamp")
    return [later - earlier for earlier, later in pairwise(listening.began[-count:])]


def _ends(client: Client, listening: Tally, count: int) -> list[float]:
    """Return the seconds from children to their parent.

    They count from the round of each lone child until its parent has its answer.
    """
    before = len(listening.began)
    client.wait(client.submit("one-child", "go", {"rounds": count}).id, 120)
    until(lambda: len(listening.began) >= before + 2 * count, "the last stamp")
    times = listening.began[before:]
    return [parent - child for child, parent in zip(times[::2], times[1::2], strict=True)]


def _one_round_runs(count: int) -> float:
    """Return the number of one-round runs that end a second.

    They were submitted before the workers came.
    """
    with redis_server("everysec") as server, closing(client_of(server)) as client:
        for _ in range(count):
            client.submit("empty", "go", {"rounds": 1, "bytes": 0})
        with workers(server, client):
            before, began = _completed(server), time.monotonic()
            until(lambda: _completed(server) >= count, "the runs", 600)
            return (count - before) / (time.monotonic() - began)


def _completed(server: RedisServer) -> int:
    return int(server.redis.zcard(Keys().index("completed")))


def _map(client: Client, items: int) -> float:
    """Return a wide parent's children per second."""
    began = time.monotonic()
    run = client.submit("wide", "go", {"items": items, "at_once": AT_ONCE})
    assert client.wait(run.id, 600).answer == items
    return items / (time.monotonic() - began)


def _stop(client: Client, width: int, below: int) -> float:
    """Return the seconds to stop a whole tree.

    They count from the request until its last run is stopped.
    """
    run = client.submit("tree", "go", {"widths": [width, below]})
    below_it = width * (1 + below)
    redis, live = client._store.redis, client._store.keys.index("live") + ":children"
    until(lambda: redis.zcard(live) == below_it and not _queued(client), "a tree at rest", 120)
    began = time.monotonic()
    assert client.request_stop(run.id, mode="now").stopped
    until(lambda: redis.zcard(live) == 0, "the end of the tree", 60)
    return time.monotonic() - began


def _queued(client: Client) -> int:
    store = client._store
    return sum(int(store.redis.llen(name)) for name in store.keys.queue_names)
