"""Failures of rounds: the settlement that follows from an error of a node.

The settlement is a retry, the end of the run, a wait for code that fits, or a stop.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping

from perdure.flows.core.errors import (
    CodeDoesNotFit,
    FatalError,
    InvalidFlow,
    RetryableError,
    RoundStopped,
    described,
    ends_process,
    text_of,
)
from perdure.flows.core.retry import tightening
from perdure.flows.core.summaries import ended
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.failed_attempt import failure, is_of_this_code, wait_for_code
from perdure.worker.domain.record import Record
from perdure.worker.domain.settlement import GIVE_BACK, Settlement
from perdure.worker.engine.round import Round
from perdure.worker.engine.traceback_text import traceback_of, without_secrets
from perdure.worker.logs import log_safely
from perdure.worker.settings import Settings

logger = logging.getLogger("perdure.rounds")


class RoundFailures:
    """Decides what follows from an error of a node, for one worker process.

    Args:
        builds: The builds of the flows in this worker, by flow name.
    """

    def __init__(self, settings: Settings, builds: Mapping[str, str]) -> None:
        self._settings = settings
        self._builds = builds

    def settlement(self, round_: Round, error: BaseException) -> Settlement:
        """Log the error of a node, and return the settlement that follows from it.

        It is a retry, the end of the run, a wait, or the release of the round. The class of the
        error and the retry policy are the user's code. If that code raises, the run ends as
        errored.
        """
        try:
            return self._decided(round_, error)
        except BaseException as broken:
            if ends_process(broken):
                raise
            record = round_.record
            log_safely(
                logger, logging.ERROR,
                "run %s, step %d, node %s: what follows from %s cannot be decided, so the run ends",
                record.id, record.step, record.node, type(error).__name__, error=broken,
            )  # fmt: skip
            plain = FatalError(
                f"{type(error).__name__} was raised, and what follows from it could not be "
                "decided: the worker's log has the reason"
            )
            return failure(record, plain, self._settings, 0.0)

    def _decided(self, round_: Round, error: BaseException) -> Settlement:
        record, lease, flow = round_.record, round_.lease, round_.flow
        where = f"run {record.id}, step {record.step}, node {record.node}"
        cause = error
        if lease.timed_out and not isinstance(error, FatalError | InvalidFlow):
            error = RetryableError(
                f"the round took longer than its limit ({lease.time_limit or 0.0:g} s)"
            )
            error.__cause__ = cause  # where the round was
        elif isinstance(error, RoundStopped):
            log_safely(
                logger,
                logging.INFO,
                "%s: the round was cancelled, its result is not wanted: %s",
                where,
                text_of(error),
            )
            if lease.lost or lease.signals.stop_requested:
                # The store turns it into the requested stop, or fences it.
                return GIVE_BACK
            error = RetryableError(
                f"RoundStopped was raised, but no stop was requested: {text_of(error)}"
            )
        elif isinstance(error, CodeDoesNotFit) and self._waits_for_code(record, flow, error):
            round_.beside.raised = error
            waiting = wait_for_code(record, error, self._settings, random.random(), self._hide)
            log_safely(
                logger,
                logging.WARNING,
                "%s The run waits for a worker whose code fits",
                ended(str(waiting.options["error"])),
            )
            return waiting
        elif isinstance(error, RetryableError) and not error.counts:
            log_safely(
                logger, logging.INFO, "%s: waits for its provider: %s", where, text_of(error)
            )
        else:
            text = described(error)
            log_safely(
                logger, logging.WARNING, "%s: the round failed: %s", where, text, error=error
            )
        try:
            retry = flow.retry_of(record.node, record.values)
            bounds = tightening(record.json("retry", None))
        except Exception as broken:
            log_safely(
                logger,
                logging.ERROR,
                "%s: its retry policy cannot be read, so the worker's settings apply",
                where,
                error=broken,
            )
            retry = bounds = None
        settlement = failure(
            record, error, self._settings, random.random(), retry, bounds, self._hide
        )
        if "uncounted" not in settlement.options and (
            raised := traceback_of(cause, self._settings)
        ):
            round_.beside.options["traceback"] = raised
        round_.beside.raised = error
        return settlement

    def _waits_for_code(self, record: Record, flow: Flow, error: CodeDoesNotFit) -> bool:
        """Return whether a run waits for a worker whose code fits the run.

        False if the flow does not want that, or if only this worker's code can have advanced the
        run.
        """
        build = self._builds.get(record.fields["flow"], "")
        return flow.on_misfit == "wait" and not is_of_this_code(record, error, build)

    def _hide(self, text: str) -> str:
        return without_secrets(text, self._settings)
