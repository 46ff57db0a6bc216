"""Fence: the claim of a round that writes outside of the protocol's transitions."""

from __future__ import annotations

from typing import NamedTuple


class Fence(NamedTuple):
    """The claim of a round that writes.

    The state server accepts the write only while this claim holds the lease of the run.
    """

    run_id: str
    token: str
    claim: str | None
