"""Nodes of a ring that only wait: for a time, or for signals. Flows written in YAML use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.rounds.context import RoundContext

NodeFunction = Callable[[dict[str, Any], RoundContext], Mapping[str, Any]]


def sleep_node(seconds: float) -> NodeFunction:
    """Return the function of a node that only sleeps. The state of its ring does not change."""

    def sleep(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Wait until the node's time is over. Change no value."""
        context.sleep(seconds)
        return {}

    return sleep


def until_node(value_name: str) -> NodeFunction:
    """Return the function of a node that waits until a time. A value of its ring has the time.

    Args:
        value_name: The name of the value or input. It holds an ISO 8601 time with a time zone.
    """

    def until(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Wait until the time in a value of the state."""
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
    """Return the function of a node that waits for signals. The first one ends the wait.

    Args:
        timeout: Seconds after which the ring goes on without a signal; None for never.
        into: The name under which the ring's state gets the signal, as ``{"name": ..., "payload":
            ...}``, or None if the time is over. None for nowhere.
    """

    def wait_for(state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Wait for one of the node's signals, or its timeout."""
        signal = context.wait_for(*names, timeout=timeout)
        if into is None:
            return {}
        return {into: signal and {"name": signal.name, "payload": signal.payload}}

    return wait_for
