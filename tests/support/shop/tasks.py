"""The shop's tasks."""

from __future__ import annotations

import threading
from typing import Any

from celery import Task

from tests.support.shop.app import app


class OutOfStock(Exception):
    """Tried again later."""


@app.task(name="shop.price")
def price(name: str) -> int:
    return len(name)


@app.task(name="shop.total")
def total(prices: list[int]) -> int:
    return sum(prices)


@app.task(
    name="shop.reserve",
    bind=True,
    autoretry_for=(OutOfStock,),
    retry_backoff=False,
    default_retry_delay=0,
    max_retries=3,
)
def reserve(self: Task, name: str, misses: int) -> int:
    if self.request.retries < misses:
        raise OutOfStock(name)
    return self.request.retries


@app.task(name="shop.mail.receipt", bind=True)
def receipt(self: Task, to: str) -> dict[str, Any]:
    return {"to": to, "key": self.request.delivery_info["routing_key"]}


@app.task(name="shop.items")
def items(basket: set[str]) -> set[str]:
    return {item.upper() for item in basket}


@app.task(name="shop.fail")
def fail() -> None:
    raise ValueError("no such order")


@app.task(name="shop.slow")
def slow() -> None:
    threading.Event().wait(60)


@app.task(name="shop.take_stock")
def take_stock() -> None:
    app.backend.client.incr("shop:stock-takings")
