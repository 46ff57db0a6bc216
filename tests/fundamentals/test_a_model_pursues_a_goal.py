"""A model pursues a goal: it decides, commands act, its worker is killed while it thinks, and
nothing but one request is paid for twice.
"""

from __future__ import annotations

import pytest

from perdure import Client, ControllerExecutorFlow, command, register
from perdure.flows.controllers.model import ModelController
from tests.conftest import StartsWorkers
from tests.support.chat_server import Hangs, Says, chat_server
from tests.support.redis_servers import until

PRICES = {"camel": 900, "goat": 120, "hen": 8}


@register("trader")
class Trader(ControllerExecutorFlow):
    """A model buys an animal.

    It may call the commands below, and knows their signatures and first lines.
    """

    controller = ModelController(system="You buy animals. Goal: the cheapest.")

    @command(idempotent=True)
    def price(self, animal: str) -> int:
        """The price of an animal."""
        return PRICES[animal]

    @command
    def buy(self, animal: str) -> str:
        """Buy an animal. (Not idempotent: if a worker dies in the middle, a person decides about
        another purchase.)
        """
        return f"bought one {animal}"


@pytest.mark.slow  # a worker that asks a model loads much
def test_a_model_pursues_a_goal(client: Client, worker_process: StartsWorkers) -> None:
    # The model is scripted, on a real socket: a reply for each number of results that the
    # conversation holds.
    script = [
        Says("Let me compare.", [("price", {"animal": "goat"}), ("price", {"animal": "hen"})]),
        Says(),  # one result of two: the model is not asked then
        Says("The hen is cheaper.", [("buy", {"animal": "hen"})]),
        Says("That is done.", [("finish", {"answer": "a hen"})]),
    ]
    # At its second request it says a little, and nothing more.
    with chat_server(script, faults={2: [Hangs(after=2)]}) as model:
        environment = {"PERDURE_FLOW_MODULES": __name__, "PERDURE_MODEL_URL": model.url}
        doomed = worker_process(**environment)
        run = client.submit("trader", "buy the cheapest animal", budgets={"tokens": 10_000})
        until(
            lambda: model.play.fired["Hangs"] == 1,
            "the model to be asked for the second time",
            seconds=60,
        )
        doomed.kill()

        # Another worker asks the same question again, and goes on.
        worker_process(**environment)
        after = client.wait(run.id, timeout=60)
        assert after.answer == "a hen"

        # Two calls in one reply were carried out in order, and each was answered.
        history = client.transcript(run.id)["history"]
        assert [(turn["command"]["name"], turn["observation"]) for turn in history] == [
            ("price", 120),
            ("price", 8),
            ("buy", "bought one hen"),
        ]
        last = [
            message
            for message in model.play.asked[-1].body["messages"]
            if message["role"] == "tool"
        ]
        assert [message["content"] for message in last] == ["120", "8", "bought one hen"]

        # Three requests were needed; one more was made, and the lost one is paid for by an
        # estimate.
        assert len(model.play.asked) == 4
        assert after.details["spent"]["requests"] == 4
        assert after.details["spent"]["tokens"] > 3 * 110
