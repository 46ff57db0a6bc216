"""Fence: the claim of a round that writes outside of the protocol's transitions."""

from __future__ import annotations

from typing import NamedTuple


class Fence(NamedTuple):
    """The claim of the round that writes. Only the holder of its lease may write."""

    run_id: str
    token: str
    claim: str | None
