"""Nodes of a ring that only wait: for some seconds, until a time, or for signals.

Flows written in YAML use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.rounds.context import RoundContext

NodeFunction = Callable[[dict[str, Any], RoundContext], Mapping[str, Any]]


def sleep_node(seconds: float) -> NodeFunction:
    """Return the function of a node that only sleeps. The node changes no value."""

    def sleep(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Sleep for the node's seconds. Change no value."""
        context.sleep(seconds)
        return {}

    return sleep


def until_node(value_name: str) -> NodeFunction:
    """Return the function of a node that waits until a time. The node changes no value.

    Args:
        value_name: The name of the value or input that has the time, in ISO 8601 with a time zone.
            For any other value the node raises FatalError.
    """

    def until(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Wait until the time in the value ``value_name``. The wait for a past time ends at once.

        Raises:
            FatalError: The value is not a time with a time zone.
        """
        text = state.get(value_name)
        try:
            when = datetime.fromisoformat(text)  # type: ignore[arg-type]
            is_aware = when.tzinfo is not None
        except (TypeError, ValueError):
            is_aware = False
        if not is_aware:
            raise FatalError(
                f"run {context.run_id}, step {context.step}: node {context.node} waits until "
                f"{value_name}, which is {text!r:.80}; expected an ISO 8601 time with a time zone, "
                "such as 2027-01-31T12:00:00+00:00"
            )
        context.until(when)
        return {}

    return until


def signal_node(names: Sequence[str], timeout: float | None, into: str | None) -> NodeFunction:
    """Return the function of a node that waits for one of some signals.

    Args:
        timeout: Seconds after which the ring goes on without a signal. None: the node waits without
            limit.
        into: The name under which the ring's state gets the signal, as
            ``{"name": ..., "payload": ...}``, or None after the timeout. If ``into`` is None, the
            signal is not stored.
    """

    def wait_for(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Wait for one of the node's signals, or for the timeout."""
        signal = context.wait_for(*names, timeout=timeout)
        if into is None:
            return {}
        return {into: signal and {"name": signal.name, "payload": signal.payload}}

    return wait_for
