"""Whether anybody traces in this process, asked before each span; and what goes wrong with spans, kept from what they tell of."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType

logger = logging.getLogger("holdfast.telemetry")

#: Seconds in which a span that could not be made costs no second line in the log: what is wrong with one is wrong with all.
QUIET_SECONDS = 60.0


def is_on() -> bool:
    """Whether somebody has set a tracer provider. Who has not even imported the API cannot have; then it is not imported for that."""
    trace = sys.modules.get("opentelemetry.trace")
    provider = getattr(trace, "get_tracer_provider", None)  # not there yet while another thread imports it
    return trace is not None and provider is not None and type(provider()) is not trace.ProxyTracerProvider


class Harmless:
    """A block in which what fails costs a line in the log, and no round: spans tell of the work, they are no part of it.

    Args:
        what: could not be traced then; the log says so.
    """

    _quiet_until = 0.0

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        now = time.monotonic()
        if now >= Harmless._quiet_until:
            Harmless._quiet_until = now + QUIET_SECONDS
            logger.warning("%s could not be traced; the work goes on: %s: %s", self._what, type(error).__name__, error, exc_info=error)
        return True
