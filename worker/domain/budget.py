"""The budget account: a run's limits, its spending so far, and the spending of this round.

A run's budgets also count the spending of the runs below it, except budgets of cycles and seconds.

Pure functions. An attempt whose worker was lost never reports its usage, so it is charged an
estimate. The claim counts attempts. Each attempt without a report costs the flow's estimate for
one attempt, plus its spending on the results that it recorded. Claiming a round therefore writes
nothing extra for budgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from perdure.flows.core.budgets import KINDS, RUNS, Budget, sum_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Interrupt
from perdure.worker.domain.record import EARLIER_CYCLES, Record
from perdure.worker.domain.tree_amounts import ADDED, TREE, Payer, millionths
from perdure.worker.errors import DamagedRun

if TYPE_CHECKING:
    from perdure.flows.core.names import Role

#: Maximum that one commit charges to the runs above, in millionths. Lua still adds it exactly.
MOST_CHARGED = 10**18 - 1
NOTHING_SPENT: Mapping[str, float] = MappingProxyType({})
#: Reason of the interrupt that is raised when a budget is used up.
EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True, slots=True)
class BudgetAbove:
    """A budget of a run above this one in its tree. It limits this run too.

    Attributes:
        run_id: the run that has the budget.
        nonce: the nonce of that run.
        name: the budget's name.
        added: the amount added to its limit: the stored text, in millionths. Empty for none.
    """

    run_id: str
    nonce: str
    name: str
    limit: float
    spent: float
    added: str = ""

    def before(self, lost: Mapping[str, float]) -> Budget:
        """Return the budget before this attempt of a round.

        Args:
            lost: charge for the lost attempts of the run's step, by budget name.
        """
        return Budget(self.limit, self.spent + lost.get(self.name, 0))


@dataclass(frozen=True, slots=True)
class Shortage:
    """A budget that is used up, so that a round may not run.

    Attributes:
        run_id: the run that has the budget: the round's own run, or one above it.
        nonce: the nonce of that run.
        name: the budget's name.
        added: the amount added to its limit: the stored text, in millionths. Empty for none.
        is_own: whether ``run_id`` is the round's own run.
    """

    run_id: str
    nonce: str
    name: str
    budget: Budget
    added: str
    is_own: bool = False

    @property
    def interrupt(self) -> Interrupt:
        """The interrupt that asks a person to add to the budget."""
        data = {
            "budget": self.name,
            "limit": self.budget.limit,
            "spent": round(self.budget.spent, 6),
        }
        return Interrupt(EXHAUSTED, data if self.is_own else {**data, "of": self.run_id})


def budgets_above(record: Record, read: Sequence[Mapping[str, str]]) -> tuple[BudgetAbove, ...]:
    """Return the budgets of runs above a run that limit this run.

    A run above limits nothing if it is gone, was created again under its id, or cannot be read.

    Args:
        read: the hash fields of each run above that limits the run, in the order of
            ``record.payers``.
    """
    budgets = []
    limiting = [payer for payer in record.payers if limits_of(payer)]
    for payer, fields in zip(limiting, read, strict=True):
        if (fields.get("id"), fields.get("nonce")) != (payer.run_id, payer.nonce):
            continue
        above = Record(fields)
        try:
            limits, spent = above.limits, sum_of([above.spent, above.tree])
        except DamagedRun:
            continue
        budgets += [
            BudgetAbove(
                payer.run_id,
                payer.nonce,
                name,
                limits[name],
                spent.get(name, 0),
                fields.get(f"{ADDED}{name}", ""),
            )
            for name in limits_of(payer)
            if name in limits
        ]
    return tuple(budgets)


def limits_of(payer: Payer) -> tuple[str, ...]:
    """Return the names of a payer's budgets that limit spending below it.

    The budget ``runs`` is left out: it limits the number of runs below, not their spending.
    """
    return tuple(name for name in payer.names if name != RUNS)


def fields_above(payer: Payer) -> list[str]:
    """Return the names of the hash fields to read for a payer's budgets."""
    names = [f"{prefix}{name}" for name in payer.names for prefix in (TREE, ADDED)]
    return ["id", "nonce", "budgets", "spent", *names]


class BudgetAccount(NamedTuple):
    """Budget account of one run at one attempt.

    Attributes:
        record: The run as this attempt's claim read it.
        attempt: Number of this attempt of the step, from 1.
        now: Time of this attempt's claim, in ms of the server's clock.
        above: Budgets of runs above that limit this run too, the parent's first.
        recorded: Spending of lost attempts of this step on the results that they recorded.
    """

    record: Record
    attempt: int
    now: int
    above: tuple[BudgetAbove, ...] = ()
    recorded: Mapping[str, float] = NOTHING_SPENT

    @property
    def lost(self) -> int:
        """The number of earlier attempts of this step that never reported their usage."""
        return max(0, self.attempt - 1 - self.record.count("settled"))

    def before(self, estimate: Mapping[str, float]) -> dict[str, float]:
        """Return the amounts spent before this attempt, by budget.

        Args:
            estimate: Expected cost of one attempt of this round. Each lost attempt is charged it.
        """
        return sum_of([self.record.spent, self._lost(estimate)])

    def budgets(self, estimate: Mapping[str, float] | None = None) -> dict[str, Budget]:
        """Return the budgets before this attempt, by name.

        Budgets of runs above are included. Of two with the same name, the one with less left
        counts. Each lost attempt is charged ``estimate``.
        """
        budgets = self._own(estimate or {})
        for each in self.above:
            budget = each.before(self._lost(estimate or {}))
            own = budgets.get(each.name)
            if own is None or budget.limit - budget.spent < own.limit - own.spent:
                budgets[each.name] = budget
        return budgets

    def _own(self, estimate: Mapping[str, float]) -> dict[str, Budget]:
        record = self.record
        if not record.budgets:
            return {}
        spent = sum_of([self.before(estimate), record.tree]) | {
            "cycles": record.cycles + record.count(EARLIER_CYCLES),
            "seconds": self.seconds,
        }
        return {
            name: Budget(limit, spent.get(name, 0))
            for name, limit in record.limits.items()
            if name != RUNS
        }

    def _lost(self, estimate: Mapping[str, float]) -> dict[str, float]:
        # A damaged attempt count may be huge, so multiply instead of adding in a loop.
        lost = {name: amount * self.lost for name, amount in estimate.items() if self.lost}
        return sum_of([lost, self.recorded])

    @property
    def seconds(self) -> float:
        """Seconds since the run started, without waits for people."""
        begun = self.record.count("started_at")
        return max(0, self.now - begun - self.record.count("idle")) / 1000 if begun else 0.0

    @property
    def is_tried_again(self) -> bool:
        """Whether an earlier attempt of this step failed or lost its worker. A wait is neither."""
        return self.record.count("failures") > 0 or self.record.count("losses") > 0

    def exhausted(self, estimate: Mapping[str, float], role: Role) -> Shortage | None:
        """Return the used-up budget that blocks this round.

        A limit of seconds blocks any round. A limit of cycles, tokens or money blocks rounds of
        controllers, and any round that is tried again. Any other limit blocks a round whose
        estimate names it. So a command that a controller has already decided on is still executed,
        once, even if it waits before its end.

        Args:
            role: The role of the round's node. ``controller`` in a flow that has no controllers.

        Returns:
            The run's own budget first, then that of the nearest run above. None if the round may
            run.
        """

        def blocks(name: str, budget: Budget) -> bool:
            return budget.is_exhausted and (
                name in estimate
                or name == "seconds"
                or (name in KINDS and (role == "controller" or self.is_tried_again))
            )

        record = self.record
        for name, budget in self._own(estimate).items():
            if blocks(name, budget):
                nonce = record.fields.get("nonce", "")
                added = record.fields.get(f"{ADDED}{name}", "")
                return Shortage(record.id, nonce, name, budget, added, is_own=True)
        for each in self.above:
            budget = each.before(self._lost(estimate))
            if blocks(each.name, budget):
                return Shortage(each.run_id, each.nonce, each.name, budget, each.added)
        return None

    def charge(self, fields: Mapping[str, str]) -> str:
        """Return the lines that charge this commit's spending to the runs above.

        The amounts of all commits of a run add up exactly to its spending, in millionths.

        Args:
            fields: The fields that the commit writes, as ``fields`` returned them.

        Returns:
            A line ``NAME MILLIONTHS`` for each budget. Empty if there is nothing to charge.
        """
        if "spent" not in fields or not self.record.payers:
            return ""
        before, now = self.record.spent, Record(fields).spent
        grown = {
            name: millionths(amount) - millionths(before.get(name, 0))
            for name, amount in now.items()
        }
        return "\n".join(
            f"{name} {min(amount, MOST_CHARGED)}" for name, amount in grown.items() if amount > 0
        )

    def fields(
        self, estimate: Mapping[str, float], used: Mapping[str, float], done: bool
    ) -> dict[str, str]:
        """Return the hash fields that record the run's spending.

        They are the new totals, and the number of attempts that these include.

        Args:
            estimate: Charge for each lost attempt of the step.
            used: Usage of this attempt. For a limited command, its estimate if the command was
                executed.
            done: Whether the step is over. Its attempts then count no longer.

        Returns:
            The changed fields. Empty if the run counts nothing.
        """
        fields = self.record.fields
        charged = bool(estimate or used or self.recorded)
        if not charged and "spent" not in fields and "settled" not in fields:
            return {}
        total = sum_of([self.before(estimate), used]) if charged else self.record.spent
        changed = {} if total == self.record.spent else {"spent": canonical(total)}
        settled = 0 if done or not (estimate or total) else self.attempt
        return (
            changed
            if settled == self.record.count("settled")
            else {**changed, "settled": str(settled)}
        )
