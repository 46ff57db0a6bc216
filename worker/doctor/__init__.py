"""The doctor: checks for what breaks or weakens Perdure's guarantees, with a remedy for each.

This module lists all checks, in the order of the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.flows.rounds import registry
from perdure.worker.doctor.app_checks import (
    app_findings,
    dead_letters,
    flows_loaded,
    handover,
    model_key,
    quarantined_runs,
    sandbox,
)
from perdure.worker.doctor.durability_checks import (
    append_only,
    delayed_fsyncs,
    eviction_policy,
    fsync,
    replicas,
    sentinels,
    writes,
)
from perdure.worker.doctor.server_checks import clock, cluster, connection, limit, memory, version
from perdure.worker.domain.verdict import Finding, Level
from perdure.worker.features import features
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection, inspect

if TYPE_CHECKING:
    from perdure.worker.messaging.app_connection import AppConnection


def examine(process: AppConnection, local_time: Callable[[], float] = time.time) -> list[Finding]:
    """Run all checks of ``perdure doctor``. Return their findings.

    The checks concern the state server, the Celery app and the flows of this process.

    Args:
        process: settings, store and publisher of this process.
        local_time: this machine's clock, in seconds since 1970.

    Raises:
        StoreUnavailable: the state server does not answer.
    """
    settings, store = process.settings, process.store
    inspection = inspect(store.url, settings.prefix, local_time=local_time)
    process.find_flows()
    registry.registered()
    return [
        *server_findings(inspection, settings),
        writes(inspection),
        limit(inspection),
        *sentinels(store.url),
        connection(settings, store.url),
        handover(process.publisher, inspection.handovers),
        *app_findings(process.app, process.owns_app),
        dead_letters(inspection, store.keys.dead_letters),
        quarantined_runs(inspection),
        *(found for each in features() for found in each.findings(inspection, store)),
        flows_loaded(registry.load_failures(), own_flows_lacking()),
        model_key(settings),
        sandbox(settings),
    ]


def own_flows_lacking() -> dict[str, str]:
    """Return why flows cannot run in this process, by the flow's name.

    Flows that can run, and flows that ship with Perdure, are left out.
    """
    flows = {name: registry.make(name) for name in registry.registered()}
    return {
        name: flow.missing
        for name, flow in flows.items()
        if flow.missing is not None and not registry.is_shipped(name)
    }


def server_findings(inspection: Inspection, settings: Settings) -> list[Finding]:
    """Run the checks of the state server. Return the findings."""
    return [
        version(inspection),
        cluster(inspection),
        eviction_policy(inspection, settings),
        append_only(inspection, settings),
        memory(inspection),
        clock(inspection, settings),
        fsync(inspection),
        delayed_fsyncs(inspection),
        replicas(inspection, settings),
    ]


def refusals(findings: list[Finding]) -> list[Finding]:
    """Return the findings whose level is ``refused``: they keep workers from running rounds."""
    return [finding for finding in findings if finding.level is Level.REFUSED]


__all__ = ["Finding", "Level", "examine", "refusals"]
