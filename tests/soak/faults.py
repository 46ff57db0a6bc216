"""The faults, one function each: it does the harm, calls ``strike.fired`` at the moment it is known
to be done, and mends it.

Each takes its lengths and its victim from ``chance``, which the seed decides. Two kinds never meet:
those in WORKERS touch worker processes alone, those in GROUND the server and the network; so one of
each may be at work at once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import redis

from tests.soak.cluster import Cluster, Place
from tests.soak.strike import Strike
from tests.support.os_processes import children
from tests.support.redis_servers import until

Fault = Callable[[Cluster, random.Random, Strike], None]
#: Default settings' lease, which a frozen worker is to outlast.
LEASE = 4.0
#: How long a worker may take to leave: its rounds are short.
LEAVING_SECONDS = 20.0
LEFT_TOO_LATE = "did not leave within"
#: How long to wait for a process that plays a round, when there is little work.
AT_WORK_SECONDS = 10.0
#: How far the server's clock jumps, in seconds: leases lapse by it, and by the longest would last a
#: minute more. A wait that is set while the clock is ahead does last so long, and the quiet must
#: outlast it.
JUMPS = (-8.0, -3.0, 5.0, 60.0)


def kill_worker(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Send SIGKILL to a worker with all its processes; another takes its place at once."""
    place = _at_work(cluster, chance)
    pids = place.pids()
    if place.worker.process.poll() is None:
        place.worker.kill()
        strike.fired(place.name, pids)
    cluster.launch(place)


def kill_child(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Send SIGKILL to a process of a prefork pool that plays a round.

    A process that is only starting is left alone: Celery ends a whole worker whose first processes
    die before it is up.
    """
    place = chance.choice([place for place in cluster.places if place.prefork])
    end = time.monotonic() + AT_WORK_SECONDS
    while time.monotonic() < end:
        at_work = cluster.ledger.at_work(children(place.pid))
        if at_work:
            victim = chance.choice(at_work)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                strike.fired(place.name, [victim])
            return
        time.sleep(0.05)


def freeze_worker(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Send SIGSTOP to a worker for longer than a lease: it wakes with rounds that others play by
    then.
    """
    place = _at_work(cluster, chance)
    pids = place.pids()
    place.signal(signal.SIGSTOP)
    try:
        strike.fired(place.name, pids)
        time.sleep(LEASE + chance.uniform(1.0, 3.0))
    finally:
        place.signal(signal.SIGCONT)


def warm_shutdown(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Send SIGTERM to a worker: it finishes or gives back its rounds; another takes its place."""
    _leave(cluster, _at_work(cluster, chance), signal.SIGTERM, strike)


def cold_shutdown(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Send SIGQUIT to a worker: it ends in the middle of its rounds."""
    _leave(cluster, _at_work(cluster, chance), signal.SIGQUIT, strike)


def newer_version(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Replace a worker by another whose scripts have other texts, and later back."""
    _other_version(cluster, chance, strike, "newer")


def older_version(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Replace a worker by another that knows only an older schema, and later back."""
    _other_version(cluster, chance, strike, "older")


def kill_server(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Kill the server with SIGKILL, and start it again on its data."""
    cluster.server.kill()
    strike.fired("server", [cluster.server.process])
    time.sleep(chance.uniform(0.0, 3.0))
    cluster.server.start_again()


def slow_fsync(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Suspend the server again and again, as fsync does with ``appendfsync always`` on a slow disk.

    The stand-in is SIGSTOP in bursts: with `always` the server syncs in its only thread, so nothing
    else goes on meanwhile either.
    """
    end = time.monotonic() + chance.uniform(3.0, 6.0)
    while time.monotonic() < end:
        cluster.server.freeze(chance.uniform(0.2, 1.5))
        strike.fired("server")
        time.sleep(chance.uniform(0.05, 0.3))


def memory_full(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Set ``maxmemory`` below the use: the server refuses submissions, which need more, and no
    other script.
    """
    with cluster.server.admin() as admin:
        admin.config_set("maxmemory", "1mb")
        try:
            with suppress(redis.OutOfMemoryError):
                admin.set("soak:probe", "x")
                return  # it did not take
            strike.fired("server")
            time.sleep(chance.uniform(2.0, 4.0))
        finally:
            admin.config_set("maxmemory", "0")


def disk_full(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Stop the growth of the log of writes; with ``everysec`` the server then refuses to write
    (MISCONF) until it can.

    The stand-in for a full disk is RLIMIT_FSIZE on the server: its write fails (EFBIG for ENOSPC),
    on the same path.
    """
    server = cluster.server
    with server.admin() as admin:
        admin.config_set("appendfsync", "everysec")
        server.fill_disk(chance.randrange(2000))
        try:
            if refused(admin, seconds=5.0):
                strike.fired("server")
                time.sleep(chance.uniform(1.0, 4.0))
        finally:
            server.free_disk()
            until(lambda: not refused(admin, seconds=0), "the server to write again", 30)
            admin.config_set("appendfsync", "always")


def disk_full_ends_server(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Stop the growth of the log of writes; with ``always`` the server ends itself, and is started
    again when the disk has space.
    """
    server = cluster.server
    server.fill_disk(chance.randrange(2000))
    with server.admin() as admin, suppress(redis.ConnectionError):
        for _ in range(100):
            admin.set("soak:probe", "x" * 100)
    until(server.ended, "the end of a server whose disk is full", 30)
    strike.fired("server", [server.process])
    time.sleep(chance.uniform(0.0, 2.0))
    server.start_again()


def clock_jump(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Set the server's clock to another time, and some seconds later back."""
    try:
        cluster.server.set_clock(chance.choice(JUMPS))
        strike.fired("server")
        time.sleep(chance.uniform(2.0, 6.0))
    finally:
        cluster.server.set_clock(0.0)


def script_flush(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Flush all scripts of the server, a few times."""
    with cluster.server.admin() as admin:
        for _ in range(chance.randint(2, 5)):
            admin.script_flush()
            strike.fired("server")
            time.sleep(chance.uniform(0.1, 0.5))


def network_delay(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Delay each piece that goes through the proxy by up to 1.5 s."""
    _mood(cluster, "delay", chance.uniform(2.0, 5.0), strike)


def network_half_open(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Drop all bytes into the proxy; no connection is closed until the fault is over."""
    _mood(cluster, "half_open", chance.uniform(2.0, 8.0), strike)


def network_swallow(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Carry requests through the proxy out, and lose the reply with its connection."""
    _mood(cluster, "swallow", chance.uniform(1.0, 2.0), strike)


def network_cut(cluster: Cluster, chance: random.Random, strike: Strike) -> None:
    """Cut all connections through the proxy, a few times."""
    for _ in range(chance.randint(2, 6)):
        if cluster.proxy.cut():
            strike.fired("proxy")
        time.sleep(chance.uniform(0.1, 0.5))


def refused(admin: redis.Redis, seconds: float) -> bool:
    """Return whether the server refuses to write, at once or within these seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            admin.set("soak:probe", "x" * 100)
        except redis.ResponseError as error:
            if str(error).startswith("MISCONF"):
                return True
            raise
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)


def _at_work(cluster: Cluster, chance: random.Random) -> Place:
    """Choose a worker that plays rounds, if any does: the others have nothing to lose."""
    return chance.choice(
        [place for place in cluster.places if cluster.ledger.at_work(place.pids())]
        or cluster.places
    )


def _mood(cluster: Cluster, mood: str, seconds: float, strike: Strike) -> None:
    before = cluster.proxy.done[mood]
    cluster.proxy.mood = mood
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if cluster.proxy.done[mood] > before:
                strike.fired("proxy")
            time.sleep(0.05)
    finally:
        cluster.proxy.mood = "pass"


def _leave(cluster: Cluster, place: Place, number: signal.Signals, strike: Strike) -> None:
    pids = place.pids()
    if place.worker.process.poll() is None:
        place.worker.process.send_signal(number)
        strike.fired(place.name, pids)
    if not place.wait_ended(LEAVING_SECONDS):
        strike.note(f"{LEFT_TOO_LATE} {LEAVING_SECONDS:.0f} s, and was killed")
    cluster.launch(place)


def _other_version(cluster: Cluster, chance: random.Random, strike: Strike, version: str) -> None:
    place = chance.choice(cluster.places)
    place.worker.terminate()
    place.wait_ended(LEAVING_SECONDS)
    cluster.launch(place, version)
    try:
        until(
            lambda: place.announced() or place.worker.process.poll() is not None,
            f"a worker of the {version} version",
            30,
        )
        if place.announced():
            strike.fired(f"{place.name} {version}")
            time.sleep(chance.uniform(3.0, 6.0))
        place.worker.terminate()
        place.wait_ended(LEAVING_SECONDS)
    finally:
        cluster.launch(place)


#: Faults of worker processes, and faults of the ground they stand on.
WORKERS: tuple[Fault, ...] = (
    kill_worker,
    kill_child,
    freeze_worker,
    warm_shutdown,
    cold_shutdown,
    newer_version,
    older_version,
)
GROUND: tuple[Fault, ...] = (
    kill_server, slow_fsync, memory_full, disk_full, disk_full_ends_server, clock_jump, script_flush,
    network_delay, network_half_open, network_swallow, network_cut,
)  # fmt: skip
#: Every kind by its name.
ALL = {kind.__name__: kind for kind in (*WORKERS, *GROUND)}
