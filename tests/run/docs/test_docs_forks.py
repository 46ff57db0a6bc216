"""docs/guides/forks.md: its flow is played and forked as it says."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.flows.rounds import registry
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving

TEXT = (Path(__file__).parents[3] / "docs/guides/forks.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


def test_the_trip_is_forked_and_pays_once(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "trips.py").write_text(EXAMPLES["trips.py"], "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    settings = settings.model_copy(update={"flow_modules": ("trips",)})
    registry.load_modules(settings.flow_modules)
    with driving(settings) as driver:

        class Played(Client):
            """Plays the rounds whenever the example waits."""

            def wait(self, run_id: str, *args: object, **named: object):  # type: ignore[no-untyped-def]
                driver.play()
                return super().wait(run_id, 5)

            def result(self, run, *args: object, **named: object):  # type: ignore[no-untyped-def]
                driver.play()
                return super().result(run, 5)

        with monkeypatch.context() as patched:
            patched.setattr("perdure.Client", lambda: Played(settings=settings))
            exec(compile(EXAMPLES["fork_trip.py"], "fork_trip.py", "exec"), {})
    assert capsys.readouterr().out == "a mail to Oslo\n"
    with closing(Client(settings=settings)) as client:
        paid = [
            run.id
            for run in client.runs()
            for event in client.events(run.id, follow=False)
            if event.data.get("command") == "pay" and event.node == "Executor"
        ]
        assert len(client.runs()) == 2 and len(paid) == 1
