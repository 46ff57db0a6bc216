"""The doctor: checks of everything that can break or weaken Perdure's guarantees.

This module lists all checks, in the order of the report. A finding has a remedy if its check fails.
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
    """Run all checks of ``perdure doctor``. Return their findings, also those of passed checks.

    The checks concern the state server, the Celery app and the flows of this process. They register
    the flows of this process.

    Args:
        process: The settings, store, app and publisher of this process.
        local_time: Returns this machine's time, in seconds since 1970.

    Raises:
        StoreUnavailable: The state server does not answer.
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
    """Return the reason for each registered flow that cannot run in this process, by name.

    Flows that ship with Perdure are left out.
    """
    flows = {name: registry.make(name) for name in registry.registered()}
    return {
        name: flow.missing
        for name, flow in flows.items()
        if flow.missing is not None and not registry.is_shipped(name)
    }


def server_findings(inspection: Inspection, settings: Settings) -> list[Finding]:
    """Run the checks of the state server's version, settings and clock. Return their findings."""
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
    """Return the findings whose level is ``refused``."""
    return [finding for finding in findings if finding.level is Level.REFUSED]


__all__ = ["Finding", "Level", "examine", "refusals"]
