"""The doctor's checks of a worker before its first round."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.flows.core.errors import PerdureError
from perdure.worker.doctor import examine, refusals
from perdure.worker.doctor.durability_checks import PASSING, VOIDING, refusal
from perdure.worker.domain.verdict import Level
from perdure.worker.store import StoreUnavailable

if TYPE_CHECKING:
    from perdure.worker.runtime.runtime import Runtime

logger = logging.getLogger("perdure.doctor")

LOGGED = {
    Level.REFUSED: logging.CRITICAL,
    Level.WARNING: logging.WARNING,
    Level.UNKNOWN: logging.INFO,
}
#: Not logged by workers: most servers have this on purpose. `perdure doctor` reports it.
QUIET = {"fsync", "maxmemory"}


def why_no_rounds(engine: Runtime) -> str | None:
    """Return why a worker of a user's app must not run rounds. None if it may.

    The checks of the doctor decide this. If the state server does not answer, a warning is logged
    and the result is None. The worker runs the app's own tasks in any case.
    """
    try:
        findings = examine(engine)
    except StoreUnavailable as error:
        logger.warning("the state server's settings were not checked: %s", error)
        return None
    except PerdureError as error:
        return str(error)
    refused = [finding for finding in refusals(findings) if finding.check not in PASSING]
    for finding in findings:
        if finding.level in LOGGED and finding not in refused and finding.check not in QUIET:
            logger.log(LOGGED[finding.level], "%s", finding)
    about_server = [finding for finding in refused if finding.check in VOIDING]
    others = [str(finding) for finding in refused if finding not in about_server]
    return (
        "; ".join([*([refusal(engine.store.url, about_server)] if about_server else []), *others])
        or None
    )


def check_before_start(engine: Runtime) -> None:
    """Run the checks of the doctor before a worker of Perdure's own app starts.

    Findings are logged. If the state server does not answer, the worker starts, and waits for the
    server as usual.

    Raises:
        SystemExit: Exit code 1, because a finding is ``refused``.
    """
    try:
        findings = examine(engine)
    except StoreUnavailable as error:
        logger.warning("the state server's settings were not checked: %s", error)
        return
    for finding in findings:
        if finding.level in LOGGED and (
            finding.level is Level.REFUSED or finding.check not in QUIET
        ):
            logger.log(LOGGED[finding.level], "%s", finding)
    if any(finding.check not in PASSING for finding in refusals(findings)):
        logger.critical("this worker does not start: see the findings above, and perdure doctor")
        raise SystemExit(1)
