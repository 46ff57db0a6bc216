"""Ledger: what a run may spend, has spent, and spends in the round at hand. Pure.

An attempt whose worker was lost never says what it used, so it is charged by an estimate: the claim counts attempts, and each
that nobody has settled costs what the flow expects of one. Nothing has to be written for that when a round is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flows.base import Role
from flows.budgets import KINDS, Budget, sum_of
from flows.outcomes import Interrupt
from flows.values import canonical
from worker.record import Record

#: The reason of the interrupt at a hard limit.
EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True)
class Ledger:
    """The accounts of one run at one attempt.

    Attributes:
        record: the run as this attempt's claim read it.
        attempt: this attempt of the step, from 1.
        now: when it was claimed (ms of the server's clock).
    """

    record: Record
    attempt: int
    now: int

    @property
    def lost(self) -> int:
        """Earlier attempts of this step that never said what they used."""
        return max(0, self.attempt - 1 - self.record.count("settled"))

    def before(self, estimate: Mapping[str, float]) -> dict[str, float]:
        """What was spent before this attempt; ``estimate``: what one attempt of this round costs."""
        # Multiplied, not added up: a damaged count of attempts may be anything.
        charged = {name: amount * self.lost for name, amount in estimate.items()} if estimate and self.lost else {}
        return sum_of([self.record.spent, charged])

    def budgets(self, estimate: Mapping[str, float] | None = None) -> dict[str, Budget]:
        """Each limit, with what was spent of it before this attempt."""
        if not self.record.budgets:
            return {}
        spent = self.before(estimate or {}) | {"cycles": self.record.cycles, "seconds": self.seconds}
        return {name: Budget(limit, spent.get(name, 0)) for name, limit in self.record.budgets.items()}

    @property
    def seconds(self) -> float:
        """How long the run has gone on; what it waited for people does not count."""
        begun = self.record.count("started_at")
        return max(0, self.now - begun - self.record.count("idle")) / 1000 if begun else 0.0

    def exhausted(self, estimate: Mapping[str, float], role: Role) -> Interrupt | None:
        """The interrupt at the first limit that is reached, and concerns this round; None where it may be played.

        A limit of seconds holds up any round; one of cycles, tokens or money those of controllers, and any limit a round that is
        expected to spend of it. So a command that has been decided is still carried out.
        """
        for name, budget in self.budgets(estimate).items():
            if budget.is_exhausted and (name in estimate or name == "seconds" or (name in KINDS and role == "controller")):
                return Interrupt(EXHAUSTED, {"budget": name, "limit": budget.limit, "spent": round(budget.spent, 6)})
        return None

    def fields(self, estimate: Mapping[str, float], used: Mapping[str, float], done: bool) -> dict[str, str]:
        """What the commit writes: the new totals, and which attempts are in them. Nothing where nothing is counted.

        Args:
            used: what this attempt used; of a limited command, its estimate where the command was carried out.
            done: the step is over, and with it its attempts.
        """
        fields = self.record.fields
        if not estimate and not used and "spent" not in fields and "settled" not in fields:
            return {}
        total = sum_of([self.before(estimate), used]) if estimate or used else self.record.spent
        changed = {} if total == self.record.spent else {"spent": canonical(total)}
        settled = 0 if done or not (estimate or total) else self.attempt
        return changed if settled == self.record.count("settled") else {**changed, "settled": str(settled)}
