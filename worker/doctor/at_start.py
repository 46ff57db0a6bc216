"""What a worker does with the doctor's findings before it plays a round."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flows.errors import HoldfastError
from worker.doctor.durability import VOIDING, refusal
from worker.doctor.examination import examine, refusals
from worker.doctor.finding import Level
from worker.store import StoreUnavailable

if TYPE_CHECKING:
    from worker.engine import Engine

logger = logging.getLogger("holdfast.doctor")

LOGGED = {Level.REFUSED: logging.CRITICAL, Level.WARNING: logging.WARNING, Level.UNKNOWN: logging.INFO}
#: Said of servers as most run them, on purpose; `holdfast doctor` tells of it, the log of every worker need not.
QUIET = {"fsync"}


def why_no_rounds(engine: Engine) -> str | None:
    """Return why a worker of somebody's app plays no rounds, or None if it does.

    The app's own tasks run in either case. A server that does not answer is not judged.
    """
    try:
        findings = examine(engine)
    except StoreUnavailable as error:
        logger.warning("the server could not be examined: %s", error)
        return None
    except HoldfastError as error:
        return str(error)
    refused = refusals(findings)
    for finding in findings:
        if finding.level in LOGGED and finding.level is not Level.REFUSED and finding.check not in QUIET:
            logger.log(LOGGED[finding.level], "%s", finding)
    about_server = [finding for finding in refused if finding.check in VOIDING]
    others = [str(finding) for finding in refused if finding not in about_server]
    return "; ".join([*([refusal(engine.store.url, about_server)] if about_server else []), *others]) or None


def check_before_start(engine: Engine) -> None:
    """Log what was found; a server that does not answer is not judged (the worker waits for it as ever).

    Raises:
        SystemExit(1): with what was found the promises do not hold.
    """
    try:
        findings = examine(engine)
    except StoreUnavailable as error:
        logger.warning("the server could not be examined: %s", error)
        return
    for finding in findings:
        if finding.level in LOGGED and (finding.level is Level.REFUSED or finding.check not in QUIET):
            logger.log(LOGGED[finding.level], "%s", finding)
    if any(finding.level is Level.REFUSED for finding in findings):
        logger.critical("this worker does not start; see above why, and holdfast doctor")
        raise SystemExit(1)
