"""A flow whose controller pays for each decision in an outside account.

A killed process cannot take a payment back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from perdure import (
    Command,
    ControllerExecutorFlow,
    Finish,
    RetryableError,
    RoundContext,
    command,
    register,
)
from tests.support.named_crash_points import die_at

#: The real cost of a decision, and the expected one: never less.
TOKENS, EXPECTED = 1_000, 1_200


class Account:
    """The payments outside: a line a request."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def pay(self) -> int:
        """Record a payment for one request; return its number."""
        with self.path.open("a") as account:
            account.write(f"{TOKENS}\n")
        return self.requests

    @property
    def requests(self) -> int:
        """How many were paid for."""
        return len(self.path.read_text().split()) if self.path.exists() else 0


class Paying:
    """Decides by paying."""

    def decide(self, context: RoundContext) -> Command | Finish:
        """Wait once more, for as many rounds as the goal says; every second request may kill its
        process, or fail.
        """
        request = Account(context.inputs["account"]).pay()
        if request % 2 == 0:
            die_at("paid")
        context.spend(tokens=TOKENS, money=0.01)
        context.tell(model="paid-1")
        if request % 2 == 0 and context.inputs["fails"]:
            raise RetryableError("no answer", retry_after=0)
        rounds = len(context.history)
        return Finish(rounds) if rounds >= int(context.goal) else Command("wait")

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """Return the expected cost of a decision."""
        return {"tokens": EXPECTED, "money": 0.012}


@register("payer")
class Payer(ControllerExecutorFlow):
    """Spends 1,000 tokens a round until its goal, a number of rounds, is reached."""

    max_rounds = 100
    controller = Paying()

    class Inputs(BaseModel):
        account: str
        fails: bool = False

    @command(idempotent=True)
    def wait(self, context: RoundContext) -> bool:
        """Wait; tells whether the budget is low."""
        return any(budget.is_low for budget in context.budgets.values())
