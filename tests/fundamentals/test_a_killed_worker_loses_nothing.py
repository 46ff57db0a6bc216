"""Kill a worker in the middle of a round: another one takes the run up, and effects happen once
where the key is honoured.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from perdure import Client, Command, ControllerExecutorFlow, Finish, RoundContext, command, register
from tests.conftest import StartsWorkers
from tests.support.redis_servers import until


@register("clerk")
class Clerk(ControllerExecutorFlow):
    """Books three amounts in a ledger outside, and takes its time over it."""

    class Inputs(BaseModel):
        ledger: str

    def decide(self, context: RoundContext) -> Command | Finish:
        booked = len(context.history)
        return Finish("booked") if booked == 3 else Command("book", {"amount": booked + 1})

    @command(in_doubt="retry")
    def book(self, context: RoundContext, amount: int) -> str:
        # The receiver knows the key, so a second try of the same round changes nothing.
        entry = Path(context.inputs["ledger"]) / context.idempotency_key.replace(":", "-")
        entry.write_text(str(amount))
        with (entry.parent / "tries").open("a") as tries:
            tries.write(f"{amount}\n")
        context.cancelled.wait(1.0)
        return "done"


def test_a_killed_worker_loses_nothing(
    client: Client, worker_process: StartsWorkers, tmp_path: Path
) -> None:
    doomed = worker_process(PERDURE_FLOW_MODULES=__name__)
    run = client.submit("clerk", "book the amounts", {"ledger": str(tmp_path)})

    # Wait until the second amount is being booked, and kill the worker's whole process group in the
    # middle of it.
    tries = tmp_path / "tries"
    until(lambda: tries.exists() and tries.read_text() == "1\n2\n", "the second booking to begin")
    doomed.kill()
    assert client.get(run.id).phase == "leased"

    # No notification is needed. Another worker notices that the lease has lapsed, and plays the
    # same round again.
    worker_process(PERDURE_FLOW_MODULES=__name__)
    assert client.wait(run.id, timeout=60).answer == "booked"

    committed = [event.step for event in client.events(run.id) if event.type == "committed"]
    assert committed == [0, 1, 2, 3, 4, 5, 6], "each round was committed once, in order"
    assert tries.read_text() == "1\n2\n2\n3\n", "the second booking was tried twice"
    assert len(list(tmp_path.iterdir())) == 4, (
        "and yet three amounts are booked: the key was the same both times"
    )
