"""The switch of tracing, and a guard against its errors.

The spans here record nothing and import no OpenTelemetry. They are for a process that does not
trace.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.flows.rounds.context import RoundContext
    from perdure.worker.domain.settlement import Settlement

logger = logging.getLogger("perdure.telemetry")

#: Seconds after a tracing error without another log line: the cause of one broken span breaks all.
QUIET_SECONDS = 60.0


def is_on() -> bool:
    """Return whether this process traces, without importing OpenTelemetry.

    It does if a tracer provider is configured.
    """
    trace = sys.modules.get("opentelemetry.trace")
    provider = getattr(
        trace, "get_tracer_provider", None
    )  # missing while another thread imports the module
    return (
        trace is not None
        and provider is not None
        and type(provider()) is not trace.ProxyTracerProvider
    )


class SuppressTracingErrors:
    """A block that logs errors instead of raising them: tracing must not fail a round.

    Args:
        what: The subject of the log line, e.g. "a request".
    """

    _quiet_until = 0.0

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        now = time.monotonic()
        if now >= SuppressTracingErrors._quiet_until:
            SuppressTracingErrors._quiet_until = now + QUIET_SECONDS
            logger.warning(
                "%s could not be traced; the work continues: %s: %s",
                self._what,
                type(error).__name__,
                error,
                exc_info=error,
            )
        return True


class RunSpan:
    """The span of a run that is being submitted. This base class records nothing.

    Attributes:
        fields: The fields that the run's hash stores about the span.
        made: Whether this submission created the run; a repeated one does not.
    """

    fields: Mapping[str, str] = MappingProxyType({})
    made = False


class RoundSpan:
    """The span of one attempt of a round. This base class records nothing."""

    def played(self, context: RoundContext) -> None:
        """Record a node's reports in the round's span."""

    def fields(self, settlement: Settlement) -> Mapping[str, str]:
        """Return the tracing fields for the run's hash."""
        return {}

    def outcome(self, word: str) -> None:
        """Record a commit's outcome in the round's span."""
