"""Flows with faults planted in them that a crash laboratory must find, and the same without.

The outside world is a ``Bank``: it honours keys, and its executed orders are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar
from uuid import uuid4

from perdure import (
    CircularFlow,
    Command,
    Controller,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    Node,
    RetryableError,
    RoundContext,
    command,
)
from perdure.testing import point


@dataclass
class Bank:
    """The outside world."""

    charges: list[int] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    letters: list[str] = field(default_factory=list)
    locked: bool = False

    def charge(self, amount: int, key: str | None = None) -> str:
        if key is None or key not in self.keys:
            self.charges.append(amount)
            self.keys |= {key} if key else set()
            point("charged")
        return "paid"

    def write(self, letter: str) -> None:
        self.letters.append(letter)
        point(letter)


class Shop(ControllerExecutorFlow):
    """Charges a card once; ``key`` makes the key that the bank is given."""

    def __init__(
        self,
        bank: Bank,
        key: Callable[[RoundContext], str | None] = lambda context: context.idempotency_key,
    ) -> None:
        self.bank, self.key = bank, key
        super().__init__()

    def decide(self, context: RoundContext) -> Command | Finish:
        return (
            Finish(context.observation)
            if context.history
            else Command("charge_card", {"amount": 12})
        )

    @command(in_doubt="retry")
    def charge_card(self, context: RoundContext, amount: int) -> str:
        """Charge the card."""
        return self.bank.charge(amount, self.key(context))


class Asking(ControllerExecutorFlow):
    """Charges a card by a command that has no policy: after the loss of its worker a person is asked."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        super().__init__()

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish(context.observation) if context.history else Command("charge_card")

    @command
    def charge_card(self, context: RoundContext) -> str:
        """Charge the card."""
        return self.bank.charge(12, context.idempotency_key)


class Invoice(CircularFlow):
    """Charges, waits for the payment, sleeps, and answers with the payment; ``charge`` is its
    action before the wait.
    """

    topology = (Node("Pay", "pay"),)
    max_rounds = None

    def __init__(self, bank: Bank, charge: Callable[[Bank, RoundContext], Any]) -> None:
        self.bank, self.charge = bank, charge
        super().__init__()

    def pay(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        told = self.charge(self.bank, context)
        paid = context.wait_for("paid", timeout="1d")
        context.sleep("1h")
        answer = [told, None if paid is None else paid.payload]
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}


def once(bank: Bank, context: RoundContext) -> Any:
    key = f"{context.run_id}:{context.step}"
    return context.once("charged", lambda: bank.charge(12, key))


def again_behind_the_wait(bank: Bank, context: RoundContext) -> Any:
    return bank.charge(12)


def only_where_nothing_came(bank: Bank, context: RoundContext) -> Any:
    return "reminded" if context.take("cancelled") is None else "cancelled"


def naive(bank: Bank) -> Shop:
    return Shop(bank, lambda context: None)


def by_attempt(bank: Bank) -> Shop:
    return Shop(bank, lambda context: f"{context.idempotency_key}:{context.attempt}")


def by_chance(bank: Bank) -> Shop:
    return Shop(bank, lambda context: uuid4().hex)


class AsyncShop(Shop):
    @command(in_doubt="retry")
    async def charge_card(self, context: RoundContext, amount: int) -> str:
        """Charge the card."""
        return self.bank.charge(amount, self.key(context))


class Swallower(Shop):
    """Catches its own death."""

    @command(in_doubt="retry")
    def charge_card(self, context: RoundContext, amount: int) -> str:
        """Charge the card."""
        try:
            return self.bank.charge(amount, self.key(context))
        except BaseException:
            return "not paid"


class Three(ControllerExecutorFlow):
    """Says three words, one a turn, and answers them; its way to keep them in between is the
    subclass's fault.
    """

    def decide(self, context: RoundContext) -> Command | Finish:
        said = self.said(context)
        return (
            Finish(" ".join(said))
            if len(context.history) == 3
            else Command("say", {"word": "abc"[len(context.history)]})
        )

    def said(self, context: RoundContext) -> list[str]:
        return [str(turn.observation) for turn in context.history]

    @command(idempotent=True)
    def say(self, word: str) -> str:
        """Say a word."""
        return word


class KeptOnClass(Three):
    words: ClassVar[list[str]] = []

    def said(self, context: RoundContext) -> list[str]:
        return self.words

    @command(idempotent=True)
    def say(self, word: str) -> str:
        """Say a word."""
        self.words.append(word)
        return word


class KeptOnObject(KeptOnClass):
    """Works as long as one object, registered, is copied for all rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.words = []  # type: ignore[misc]


class Counting(Controller):
    """A controller that counts its own turns."""

    def __init__(self) -> None:
        self.turns = 0

    def decide(self, context: RoundContext) -> Command | Finish:
        self.turns += 1
        return Finish(len(context.history)) if self.turns == 3 else Command("say", {"word": "x"})


class KeptOnController(Three):
    max_rounds = 30  # for a count that does not reach three

    controller: ClassVar[Controller] = Counting()

    def decide(self, context: RoundContext) -> Any:
        return self.controller.decide(context)


@command(idempotent=True)
def whisper(word: str) -> str:
    """Say a word, softly."""
    return word


decided = count()


class ByAClock(Three):
    """Decides by something that goes on from run to run."""

    commands = (whisper,)

    def decide(self, context: RoundContext) -> Command | Finish:
        if len(context.history) == 3:
            return Finish("")
        return Command("say" if next(decided) % 2 else "whisper", {"word": "x"})


class AnswersByChance(Three):
    def said(self, context: RoundContext) -> list[str]:
        return [uuid4().hex]


class Letters(ControllerExecutorFlow):
    """Writes three texts in one command; ``heeds`` says whether it looks up in between."""

    def __init__(self, bank: Bank, heeds: bool) -> None:
        self.bank, self.heeds = bank, heeds
        super().__init__()

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish("written") if context.history else Command("write_all")

    @command(in_doubt="retry")
    def write_all(self, context: RoundContext) -> str:
        """Write all."""
        for letter in ("a", "b", "c"):
            if self.heeds:
                context.raise_if_stopped()
            if letter not in self.bank.letters:
                self.bank.write(letter)
        return "done"


class Skipping(Shop):
    """Hands back something else when it is asked to stop; a graceful stop keeps that."""

    @command(in_doubt="retry")
    def charge_card(self, context: RoundContext, amount: int) -> str:
        """Charge the card."""
        paid = self.bank.charge(amount, self.key(context))
        return "skipped" if context.stop_requested else paid


class Locking(ControllerExecutorFlow):
    """Locks, then unlocks; both may be done twice, but a lock that comes late stays."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        super().__init__()

    def decide(self, context: RoundContext) -> Command | Finish:
        turn = len(context.history)
        return Finish("done") if turn == 2 else Command(("lock", "unlock")[turn])

    @command(idempotent=True)
    def lock(self) -> None:
        """Lock."""
        self.bank.locked = True

    @command(idempotent=True)
    def unlock(self) -> None:
        """Unlock."""
        self.bank.locked = False


class Busy(Shop):
    """The bank is busy at the first attempt."""

    @command(in_doubt="retry")
    def charge_card(self, context: RoundContext, amount: int) -> str:
        """Charge the card."""
        if context.attempt == 1:
            raise RetryableError("the bank is busy")
        return self.bank.charge(amount, self.key(context))


class Approved(Shop):
    """Asks before it charges."""

    @command(in_doubt="retry")
    def charge_card(self, context: RoundContext, amount: int) -> object:
        """Charge the card, if a person agrees."""
        if not context.answered:
            return Interrupt("may I?", data={"amount": amount})
        return (
            self.bank.charge(amount, self.key(context)) if context.answer == "yes" else "declined"
        )
