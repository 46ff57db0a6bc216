"""docs/guides/workflows.md: its functions are played."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings
from perdure.flows.rounds import registry
from perdure.testing import crash_lab
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver, driving

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guides/workflows.md").read_text("utf-8")
FENCED = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
IN_README = dict(FENCED.findall((ROOT / "README.md").read_text("utf-8")))
EXAMPLES = {
    **dict(FENCED.findall(TEXT)),
    # The name of its flow is also that of one in the guide.
    "parcels.py": IN_README["parcels.py"].replace('"parcel"', '"parcel_of_readme"'),
}


@pytest.fixture
def driver(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch, "order", "cheapest", "parcel")
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    modules = tuple(name.removesuffix(".py") for name in EXAMPLES)
    with driving(settings.model_copy(update={"flow_modules": modules})) as made:
        registry.load_modules(modules)
        yield made


def answer(client: Client, driver: Driver, flow: str, inputs: dict[str, Any]) -> Any:
    run = client.submit(flow, "go", inputs)
    driver.play()
    done = client.get(run.id)
    assert done.status.ended, done.status
    return done.answer


@pytest.mark.parametrize(
    ("flow", "inputs", "expected"),
    [
        ("order", {"item": "a book", "card": "4242"}, "parcel with a book"),
        ("order", {"item": "a piano", "card": "4242"}, "refunded"),
        ("cheapest", {"shops": ["expensive", "cheap"]}, "cheap"),
        ("parcel", {"item": "a book"}, "parcel with a book"),
    ],
)
def test_the_functions_of_the_guide_come_to_their_answers(
    client: Client, driver: Driver, flow: str, inputs: dict[str, Any], expected: str
) -> None:
    assert answer(client, driver, flow, inputs) == expected


def test_the_test_of_the_guide_passes(driver: Driver) -> None:
    sys.modules["test_orders"].test_an_order_survives(crash_lab)


def test_the_replay_of_the_guide_finds_the_run_that_the_new_code_does_not_fit(
    client: Client, driver: Driver
) -> None:
    misfits = sys.modules["replay_runs"].misfits
    answer(client, driver, "parcel", {"item": "a book"})
    assert misfits(client) == {}
    workflow = registry.make("parcel")
    type(workflow).function = staticmethod(lambda steps, item: "nothing")
    [fault] = misfits(client).values()
    assert "The function now: its end" in fault


def test_the_function_of_the_readme_waits_a_day_without_a_worker(
    client: Client, driver: Driver
) -> None:
    run = client.submit("parcel_of_readme", "go", {"item": "a book"})
    driver.play()
    assert client.why(run.id).code.value == "sleeping"
    store = driver.engine.store
    store.redis.hset(store.keys.run(run.id), "wait_until", 1)
    store.redis.zadd(store.keys.due, {run.id: 1})
    driver.sweep_and_play()
    assert str(client.get(run.id).answer).startswith("mailed about payment")
