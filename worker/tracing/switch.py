"""The check whether this process traces, and a guard against errors of tracing.

The spans here record nothing and do not import OpenTelemetry. A process that does not trace uses
them.
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
    """Return whether this process traces: it has a configured tracer provider.

    The check does not import OpenTelemetry.
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
    """A context manager that logs exceptions of its block instead of raising them.

    Tracing must not fail a round. At most one error in ``QUIET_SECONDS`` is logged. A BaseException
    that is not an Exception is still raised.

    Args:
        what: The subject of the log line, such as ``a request``.
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
        fields: The fields of the run's hash that identify the span.
        made: Whether this submission created the run. A repeated submission does not create it
            again.
    """

    fields: Mapping[str, str] = MappingProxyType({})
    made = False


class RoundSpan:
    """The span of one attempt of a round. This base class records nothing."""

    def played(self, context: RoundContext) -> None:
        """Record the node's own span attributes, its cost and its concurrent parts in the span."""

    def fields(self, settlement: Settlement) -> Mapping[str, str]:
        """Return the tracing fields that the round's commit writes to the run's hash."""
        return {}

    def outcome(self, word: str) -> None:
        """Record the outcome of the commit in the round's span."""
