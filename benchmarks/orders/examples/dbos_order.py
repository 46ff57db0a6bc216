"""The order in DBOS, and the start of its process."""

from __future__ import annotations

from dbos import DBOS

from benchmarks.orders.receiver import add_row


@DBOS.workflow(name="order")
def order(number: int) -> str:
    """Charge, ship and mail."""
    payment = charge(number)
    parcel = ship(number, payment)
    mail(number, parcel)
    return parcel


@DBOS.step()
def charge(number: int) -> str:
    """Charge the customer."""
    add_row(number, "charge")
    return f"payment of order {number}"


@DBOS.step()
def ship(number: int, payment: str) -> str:
    """Send the paid goods."""
    add_row(number, "ship")
    return f"parcel for the {payment}"


@DBOS.step()
def mail(number: int, parcel: str) -> None:
    """Write to the customer."""
    add_row(number, "mail")


def launch(database: str, version: str, executor: str, polling: float) -> None:
    """Start this process's threads for orders from the queue."""
    config = {
        "name": "orders",
        "system_database_url": database,
        "application_version": version,
        "executor_id": executor,
        "log_level": "CRITICAL",
    }
    DBOS(config=config)  # type: ignore[arg-type]
    DBOS.launch()
    DBOS.register_queue("orders", polling_interval_sec=polling)
