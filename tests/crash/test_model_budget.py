"""A budget of tokens with a kill in every second request of a model is exceeded by at most one
request.
"""

from __future__ import annotations

import signal

import pytest

from perdure import Client, ControllerExecutorFlow, command, register
from perdure.flows.controllers.model import ModelController
from tests.conftest import StartsWorkers
from tests.support.chat_server import Asked, Says, chat_server
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess

LIMIT = 10_000
#: Tokens that the provider reports for each request: many more than its few words would suggest.
READ, WROTE = 900, 100


@register("walker")
class Walker(ControllerExecutorFlow):
    """A model walks on and on."""

    controller = ModelController(max_tokens=500)
    max_rounds = 200

    @command(idempotent=True)
    def step(self) -> str:
        """One step."""
        return "on"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_budget_with_a_kill_in_every_second_request_is_exceeded_by_at_most_one_request(
    client: Client, worker_process: StartsWorkers
) -> None:
    workers: list[WorkerProcess] = []
    with chat_server([Says("On.", [("step", {})], tokens=(READ, WROTE))]) as model:

        def kills_every_second(asked: Asked) -> None:
            if len(model.play.asked) % 2 == 0:
                workers[
                    -1
                ].kill()  # before it is answered: the provider will have made the reply all the same

        model.play.before = kills_every_second
        environment = {"PERDURE_FLOW_MODULES": __name__, "PERDURE_MODEL_URL": model.url}
        run = client.submit("walker", "walk", budgets={"tokens": LIMIT})
        kills = 0
        while client.get(run.id).status.value != "interrupted":
            workers.append(worker_process(**environment))
            before = len(model.play.asked)
            until(
                lambda worker=workers[-1]: (
                    worker.process.poll() is not None
                    or client.get(run.id).status.value == "interrupted"
                ),
                "a kill, or the end of the budget",
                seconds=90,
            )
            kills += workers[-1].process.poll() == -signal.SIGKILL
            assert (
                len(model.play.asked) > before or client.get(run.id).status.value == "interrupted"
            )
        assert client.get(run.id).state.interrupt_reason == "budget_exhausted"
        requests, paid = len(model.play.asked), len(model.play.asked) * (READ + WROTE)
        print(
            f"{requests} requests, {kills} of them killed: {paid} of {LIMIT} tokens; the run says {client.get(run.id).details['spent']}"
        )
        assert kills >= 3, "the workers were really killed"
        assert paid <= LIMIT + READ + WROTE
        assert client.get(run.id).details["spent"]["tokens"] >= LIMIT
