"""The budget account: what a run may spend, has spent, and spends in the current round.

Pure functions. An attempt whose worker was lost never reports its usage, so it is charged an
estimate. The claim counts attempts, and each attempt without a report costs what the flow expects
of one. Claiming a round therefore writes nothing extra for budgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.flows.budgets import KINDS, Budget, sum_of
from perdure.flows.flow import Role
from perdure.flows.json_values import canonical
from perdure.flows.outcomes import Interrupt
from perdure.worker.domain.record import EARLIER_CYCLES, Record

#: Reason of the interrupt that is raised when a budget is used up.
EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True)
class BudgetAccount:
    """Budget account of one run at one attempt.

    Attributes:
        record: The run as this attempt's claim read it.
        attempt: Number of this attempt of the step, from 1.
        now: When it was claimed, in ms of the server's clock.
    """

    record: Record
    attempt: int
    now: int

    @property
    def lost(self) -> int:
        """The number of earlier attempts of this step that never reported their usage."""
        return max(0, self.attempt - 1 - self.record.count("settled"))

    def before(self, estimate: Mapping[str, float]) -> dict[str, float]:
        """Return what a run had spent before this attempt of its round, by budget name.

        Args:
            estimate: What one attempt of this round is expected to cost.
        """
        # A damaged attempt count may be huge, so multiply instead of adding in a loop.
        charged = (
            {name: amount * self.lost for name, amount in estimate.items()}
            if estimate and self.lost
            else {}
        )
        return sum_of([self.record.spent, charged])

    def budgets(self, estimate: Mapping[str, float] | None = None) -> dict[str, Budget]:
        """Return each budget of a run: its limit, and what was spent of it before this attempt."""
        if not self.record.budgets:
            return {}
        spent = self.before(estimate or {}) | {
            "cycles": self.record.cycles + self.record.count(EARLIER_CYCLES),
            "seconds": self.seconds,
        }
        return {
            name: Budget(limit, spent.get(name, 0)) for name, limit in self.record.budgets.items()
        }

    @property
    def seconds(self) -> float:
        """The time in seconds that the run has been going, without its waits for people."""
        begun = self.record.count("started_at")
        return max(0, self.now - begun - self.record.count("idle")) / 1000 if begun else 0.0

    def exhausted(self, estimate: Mapping[str, float], role: Role) -> Interrupt | None:
        """Return the interrupt that pauses the run if a budget for this round is used up.

        A limit of seconds blocks any round. A limit of cycles, tokens or money blocks rounds of
        controllers, and further attempts of any round. Any other limit blocks a round that is
        expected to spend of it. So a command that a controller has already decided on is still
        executed, once.

        Args:
            role: The role of the round's node. ``controller`` in a flow that has no controllers.

        Returns:
            The interrupt, or None if the round may run.
        """
        for name, budget in self.budgets(estimate).items():
            if budget.is_exhausted and (
                name in estimate
                or name == "seconds"
                or (name in KINDS and (role == "controller" or self.attempt > 1))
            ):
                return Interrupt(
                    EXHAUSTED,
                    {"budget": name, "limit": budget.limit, "spent": round(budget.spent, 6)},
                )
        return None

    def fields(
        self, estimate: Mapping[str, float], used: Mapping[str, float], done: bool
    ) -> dict[str, str]:
        """Return the fields of a run's hash in which the commit records what the run has spent.

        They are the new totals, and the number of attempts that are included in them.

        Args:
            used: What this attempt used. For a limited command, its estimate if the command was
                executed.
            done: Whether the step is over, and its attempts with it.

        Returns:
            The changed fields. Empty if the run counts nothing.
        """
        fields = self.record.fields
        if not estimate and not used and "spent" not in fields and "settled" not in fields:
            return {}
        total = sum_of([self.before(estimate), used]) if estimate or used else self.record.spent
        changed = {} if total == self.record.spent else {"spent": canonical(total)}
        settled = 0 if done or not (estimate or total) else self.attempt
        return (
            changed
            if settled == self.record.count("settled")
            else {**changed, "settled": str(settled)}
        )
