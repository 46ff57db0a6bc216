"""The order in Restate. ``hypercorn MODULE:app`` serves it; Restate's server calls it."""

from __future__ import annotations

import restate

from benchmarks.orders.receiver import add_row

orders = restate.Service("orders")


@orders.handler()
async def order(context: restate.Context, number: int) -> str:
    """Charge, ship and mail."""
    payment = await context.run_typed("charge", charge, number=number)
    parcel = await context.run_typed("ship", ship, number=number, payment=payment)
    await context.run_typed("mail", mail, number=number, parcel=parcel)
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


app = restate.app([orders])
