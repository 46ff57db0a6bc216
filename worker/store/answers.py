"""What transitions answer, and what a commit is asked to fetch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: How many of the newest turns come with a claim.
NEWEST_TURNS = 8


class Granted(NamedTuple):
    """A claim that was granted: the lease's token and everything the round needs. Times in ms of the server's clock.

    ``kept``: of a run that stayed; its fields are those that the caller itself committed a moment ago, not read anew.
    """

    token: str
    attempt: int
    lease_until: int
    now: int
    turns: int
    fields: dict[str, str]
    newest: list[str]
    claim: str = ""
    kept: bool = False


class Fetch(NamedTuple):
    """What a commit is to take too: the next message of these lists (of the first that has one), claimed as ``Store.claim`` would.

    A commit sent again must bring the same ``claim``, an id made for this one alone.
    """

    lists: Sequence[str]
    claim: str
    owner: str
    lease: int
    known: Iterable[str]
    schema: str | None = None

    def named(self) -> dict[str, str | int | None]:
        """As commit_round.lua takes it."""
        told: dict[str, str | int | None] = {
            "fetch": "\n".join(self.lists),
            "fetch_claim": self.claim,
            "owner": self.owner,
            "lease": self.lease,
        }
        return {**told, "known": known_flows(self.known), "newest": NEWEST_TURNS, "schema": self.schema}


class Fetched(NamedTuple):
    """A message that a commit took, and the claim of its round; None: its own delivery has to ask for one.

    ``content``: the message as the guard would read it, where this process made it; the text then need not be there.
    """

    list: str
    text: str
    claim: Granted | None
    content: dict[str, Any] | None = None


class Refused(NamedTuple):
    """A claim that was not granted: why, in a word, and what it concerns."""

    word: str
    detail: str = ""


@dataclass(frozen=True)
class Swept:
    """What a sweep did: ``(run_id, word)`` of each run looked at; in the outbox, ``(list, message)`` of what is to be published.

    ``calls``: run and epoch of each end whose ``on_end`` is late.
    """

    report: list[tuple[str, str]]
    handed: list[tuple[str, str]]
    calls: list[tuple[str, int]] = field(default_factory=list)


class Stayed(NamedTuple):
    """What the next round of a run that stays is leased under: its token, when it was claimed (ms), and fields as they are stored."""

    token: str
    now: int
    lease_until: str
    number: str
    round_until: str | None = None


def known_flows(flows: Iterable[str]) -> str:
    """The names as claiming.lua looks for one."""
    return f",{','.join(flows)},"
