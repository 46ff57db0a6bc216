"""The order as a chain of three Celery tasks."""

from __future__ import annotations

from celery import Celery, chain

from benchmarks.orders.receiver import add_row

app = Celery("orders", set_as_current=False)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_ignore_result=True)


def place_order(number: int) -> None:
    """Charge, ship and mail."""
    chain(charge.s(number), ship.s(number), mail.s(number)).delay()


@app.task(shared=False)
def charge(number: int) -> str:
    """Charge the customer."""
    add_row(number, "charge")
    return f"payment of order {number}"


@app.task(shared=False)
def ship(payment: str, number: int) -> str:
    """Send the paid goods."""
    add_row(number, "ship")
    return f"parcel for the {payment}"


@app.task(shared=False)
def mail(parcel: str, number: int) -> None:
    """Write to the customer."""
    add_row(number, "mail")
