"""A worker uses the FakeModel of a flow module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Client
from tests.support.workers import WorkerProcess

FLOW = """
from perdure import Command, ControllerExecutorFlow, Finish, command, register
from perdure.flows.controllers.model import ModelController
from perdure.testing import FakeModel

FakeModel([Command("add", {"a": 1, "b": 2}), Finish(3)], name="clerk")


@register("sums")
class Sums(ControllerExecutorFlow):
    \"\"\"Adds.\"\"\"

    controller = ModelController(model="fake:clerk")

    @command(idempotent=True)
    def add(self, a: int, b: int) -> int:
        \"\"\"Add two numbers.\"\"\"
        return a + b


@register("sums_of_worker")
class SumsOfWorker(Sums):
    \"\"\"Adds with the model of the worker.\"\"\"

    controller = ModelController()
"""


@pytest.mark.slow
def test_a_worker_process_uses_the_model_that_a_flow_module_names(
    client: Client, worker_process: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    (tmp_path / "sums.py").write_text(FLOW, "utf-8")
    worker_process(
        root=tmp_path,
        PERDURE_FLOW_MODULES="sums",
        PERDURE_MODEL="fake:clerk",
        PYTHONPATH=str(Path.cwd()),
    )
    runs = [client.submit(flow, "1 and 2") for flow in ("sums", "sums_of_worker")]
    assert [client.result(run, 30) for run in runs] == [3, 3]
