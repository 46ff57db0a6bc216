"""The order in Perdure. ``perdure worker`` plays it."""

from __future__ import annotations

from benchmarks.orders.receiver import add_row
from perdure import Steps, workflow


@workflow("order")
def order(steps: Steps, number: int) -> str:
    """Charge, ship and mail."""
    payment = steps.step(charge, number)
    parcel = steps.step(ship, number, payment)
    steps.step(mail, number, parcel)
    return parcel


def charge(number: int) -> str:
    """Charge the customer."""
    add_row(number, "charge")
    return f"payment of order {number}"


def ship(number: int, payment: str) -> str:
    """Send the paid goods."""
    add_row(number, "ship")
    return f"parcel for the {payment}"


def mail(number: int, parcel: str) -> None:
    """Write to the customer."""
    add_row(number, "mail")
