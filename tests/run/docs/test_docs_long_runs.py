"""docs/guides/long-runs.md: its flow is played, renewed and bounded as it says, and its YAML is
read.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.flows.loading.errors import InvalidFlowFile
from perdure.flows.loading.load import read_flow
from perdure.flows.rounds import registry
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guides/long-runs.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples as files."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    return tmp_path


@pytest.fixture
def settings(settings: Settings, project: Path) -> Settings:
    return settings.model_copy(update={"flow_modules": ("poller",)})


def test_the_poller_reads_all_pages_and_renews_itself_twice(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.load_modules(settings.flow_modules)
    import poller

    monkeypatch.setattr(
        poller, "read_feed", lambda at: {"number": at + 1, "items": [], "closed": at + 1 >= 210}
    )
    run = client.submit("poll_feed", "g", {"pause": 0})
    with driving(settings) as driver:
        driver.play(20_000)
    ended = client.get(run.id)
    assert (ended.answer, ended.details["generation"]) == (210, 2)
    assert ended.details["keep_events"] == 10_000


def test_the_ring_in_yaml_has_one_fault_its_own_node(project: Path) -> None:
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(project / "config/flows/poll_ring.yaml")
    (fault,) = caught.value.faults
    assert "no node is named 'read_page'" in str(fault)


@pytest.mark.parametrize("value", ["0", "many", "1.5", "-3"])
@pytest.mark.parametrize("key", ["keep_turns", "keep_events"])
def test_a_bound_that_is_no_number_is_a_fault_of_its_line(
    project: Path, key: str, value: str
) -> None:
    path = project / "config/flows/poll_ring.yaml"
    path.write_text(re.sub(rf"{key}: \d+", f"{key}: {value}", path.read_text("utf-8")), "utf-8")
    with pytest.raises(InvalidFlowFile) as caught:
        read_flow(path)
    assert any(key in str(fault) for fault in caught.value.faults)
