"""Write charge, ship, mail as a function, and kill its worker in the middle: finished steps are not
done again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure import AsyncSteps, Client, RoundContext, Steps, workflow
from tests.conftest import StartsWorkers
from tests.support.redis_servers import until
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS


@workflow("parcel_service")
def parcel_service(steps: Steps, item: str, book: str) -> str:
    """Charge for an item, ship it, and mail the customer."""
    payment = steps.step(charge, item, book)
    parcel = steps.step(ship, item, book, idempotent=True)
    return str(steps.step(mail, f"{payment}, {parcel}", book, idempotent=True))


@workflow("quick_parcel_service")
async def quick_parcel_service(steps: AsyncSteps, item: str, book: str) -> str:
    """Charge for an item and ship it at the same time, then mail the customer."""
    payment, parcel = await asyncio.gather(
        steps.step(charge, item, book), steps.step(ship, item, book, idempotent=True)
    )
    return str(await steps.step(mail, f"{payment}, {parcel}", book, idempotent=True))


def charge(item: str, book: str) -> str:
    return written(book, f"charged for {item}")


def ship(item: str, book: str, context: RoundContext) -> str:
    written(book, f"shipping {item}")
    context.cancelled.wait(1.5)  # a slow carrier
    return f"shipped {item}"


async def mail(text: str, book: str) -> str:
    return written(book, f"mailed: {text}")


def written(book: str, line: str) -> str:
    with Path(book).open("a") as lines:
        lines.write(f"{line}\n")
    return line


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
@pytest.mark.parametrize("flow", ["parcel_service", "quick_parcel_service"])
def test_a_workflow_goes_on(
    client: Client, worker_process: StartsWorkers, tmp_path: Path, flow: str, pool: str
) -> None:
    book = tmp_path / "book"
    doomed = worker_process("--pool", pool, PERDURE_FLOW_MODULES=__name__)
    run = client.submit(flow, "an order", {"item": "a camel", "book": str(book)})

    # The card is charged, and the carrier is slow. Now the worker is killed.
    # (Had it been killed before the charge was recorded, a person would be asked about it.)
    until(
        lambda: book.exists() and set(book.read_text().splitlines()) == BEFORE,
        "the shipping to begin",
    )
    until(lambda: is_charge_known(client, run.id), "the charge to be recorded")
    doomed.kill()

    # Another worker runs the function again. It charges nothing, and ships again, as it may.
    worker_process("--pool", pool, PERDURE_FLOW_MODULES=__name__)
    told = "mailed: charged for a camel, shipped a camel"
    assert client.wait(run.id, timeout=60).answer == told
    lines = book.read_text().splitlines()
    assert sorted(lines) == sorted([*BEFORE, "shipping a camel", told])


def is_charge_known(client: Client, run_id: str) -> bool:
    """Return whether the charge is committed, or recorded before the commit of its round."""
    store = client._store
    recorded: bool = store.redis.hexists(store.keys.run(run_id), "o:charge")
    return recorded or bool(client.transcript(run_id)["history"])


BEFORE = {"charged for a camel", "shipping a camel"}
