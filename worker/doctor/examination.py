"""All checks, in the order in which they are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from flows import registry
from worker.doctor.app import app_findings
from worker.doctor.broker import handover
from worker.doctor.contents import dead_letters, flows_loaded, quarantined_runs
from worker.doctor.finding import Finding, Level
from worker.doctor.keeping import append_only, delayed_fsyncs, eviction_policy, fsync, replicas
from worker.doctor.memory import memory
from worker.doctor.models import model_key
from worker.doctor.sentinels import sentinels
from worker.doctor.server import clock, cluster, connection, version
from worker.settings import Settings
from worker.store.inspection import Inspection, inspect

if TYPE_CHECKING:
    from worker.engine import Engine


def examine(engine: Engine, local_time: Callable[[], float] = time.time) -> list[Finding]:
    """What the doctor finds of this process's server, app and flows; raises StoreUnavailable where the server does not answer.

    Args:
        local_time: this machine's clock, in seconds since 1970.
    """
    settings, store = engine.settings, engine.store
    told = inspect(store.url, settings.prefix, local_time=local_time)
    engine.find_flows()
    registry.registered()
    return [
        *server_findings(told, settings),
        *sentinels(store.url),
        connection(settings, store.url),
        handover(engine.dispatcher, told.handovers),
        *app_findings(engine.app, engine.owns_app),
        dead_letters(told, store.keys.dead_letters),
        quarantined_runs(told),
        flows_loaded(registry.load_failures()),
        model_key(settings),
    ]


def server_findings(told: Inspection, settings: Settings) -> list[Finding]:
    """What the server itself comes to."""
    return [
        version(told),
        cluster(told),
        eviction_policy(told, settings),
        append_only(told, settings),
        memory(told),
        clock(told, settings),
        fsync(told),
        delayed_fsyncs(told),
        replicas(told, settings),
    ]


def refusals(findings: list[Finding]) -> list[Finding]:
    """Those with which no worker plays rounds."""
    return [finding for finding in findings if finding.level is Level.REFUSED]
