"""Runs of a tree that share a budget."""

from __future__ import annotations

from collections.abc import Mapping

from perdure import Client, Run, RunStatus


def tree_of(client: Client, run: Run) -> list[Run]:
    """Return the runs below a run."""
    found = client.children(run.id, limit=200).runs if run.details.get("spent_below") else []
    return [each for child in found for each in (child, *tree_of(client, child))]


def millionths(amounts: Mapping[str, float], name: str) -> int:
    return round(amounts.get(name, 0) * 1_000_000)


def held_up(client: Client, run: Run) -> tuple[list[Run], list[Run]]:
    """Return the runs below it that ask a person, and the runs that wait with them."""
    below = tree_of(client, run)
    return (
        [each for each in below if each.status is RunStatus.INTERRUPTED],
        [each for each in below if each.details.get("waits_for_budget")],
    )
