"""docs/guides/children.md: its flow is played, its commands can be given."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure import Client, RunStatus, Settings
from perdure.worker.cli.main import perdure
from tests.support.children_guide import EXAMPLES, settings
from tests.support.round_driver import driving

__all__ = ["settings"]


def family(client: Client, run_id: str) -> list[object]:
    """Return the requests to the runs below a run, and their answers."""
    return [
        [
            each.flow if each.flow != client.get(run_id).flow else "itself",
            each.title,
            dict(each.inputs),
            each.details.get("budgets"),
            each.answer,
            family(client, each.id),
        ]
        for each in client.children(run_id)
    ]


def test_a_ring_in_yaml_gives_the_run_that_its_python_form_gives(
    client: Client, settings: Settings
) -> None:
    inputs = {"items": [1, "broken", {"a": 2}]}
    runs = [client.submit(flow, "the catalogue", inputs) for flow in ("import_all", "catalogue")]
    with driving(settings) as driver:
        driver.play()
    python, written = [client.get(run.id) for run in runs]
    assert written.answer == python.answer == {"imported": 2, "failed": ["broken"]}
    shown, expected = family(client, written.id), family(client, python.id)
    assert shown[:2] == expected[:2]
    assert [each[2] for each in shown] == [each[2] for each in expected]


def test_a_command_in_yaml_gives_the_run_that_its_python_form_gives(
    client: Client, settings: Settings
) -> None:
    runs = [client.submit(flow, "a camel") for flow in ("editor", "newspaper")]
    with driving(settings) as driver:
        driver.play()
    python, written = [client.get(run.id) for run in runs]
    assert written.answer == python.answer == ["prices: nothing new", "reviews: nothing new"]
    shown = family(client, written.id)
    assert shown == family(client, python.id)
    call, _ = shown
    assert call[1] == 'research {"depth": 2, "goal": "prices"}'
    assert call[5] == [
        ["researcher", "prices", {"depth": 2}, {"tokens": 20000}, "prices: nothing new", []]
    ]


@pytest.mark.parametrize("file", ["catalogue", "newspaper"])
def test_the_files_are_checked(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"config/flows/{file}.yaml"
    valid = CliRunner().invoke(perdure, ["flows", "check", path])
    assert (valid.exit_code, valid.output.split(". ")[0]) == (0, f"{path}: valid")
    wrong = (
        EXAMPLES[path]
        .replace("flow: import_one", "flow: import_ome")
        .replace("flow: researcher", "flow: reseacher")
    )
    Path(path).write_text(wrong, "utf-8")
    told = CliRunner().invoke(perdure, ["flows", "check", path])
    assert told.exit_code == 2
    assert "did you mean" in told.output
    assert f"{path}, line " in told.output


def test_the_import_answers_with_its_counts(client: Client, settings: Settings) -> None:
    items = [*range(499), "broken"]
    run = client.submit("import_all", "the catalogue", {"items": items})
    with driving(settings) as driver:
        played = driver.play(5_000)
    done = client.get(run.id)
    assert done.status is RunStatus.COMPLETED
    assert done.answer["imported"] == 499
    assert done.answer["failed"] == ["broken"]
    assert len(played) == 502, "the parent plays two rounds, each child one"


def test_the_scouts_are_joined(client: Client, settings: Settings) -> None:
    run = client.submit("scouting", "a bridge")
    with driving(settings) as driver:
        driver.play()
    assert client.get(run.id).answer == {"plan": "a plan for a bridge", "found": ["a", "b"]}


def test_the_tree_is_listed(client: Client, settings: Settings) -> None:
    run = client.submit("import_all", "the catalogue", {"items": [1, 2]})
    with driving(settings) as driver:
        message = driver.take()
        assert message is not None
        driver.engine.rounds.run(*message)
    told = CliRunner().invoke(
        perdure,
        ["tree", run.id],
        env={"PERDURE_REDIS_URL": settings.redis_url, "PERDURE_PREFIX": settings.prefix},
    )
    lines = [line.split("\t") for line in told.output.splitlines()]
    assert [(status, flow, goal) for _, status, flow, _, _, _, goal in lines] == [
        ("running", "import_all", "the catalogue"),
        ("queued", "import_one", "Import 1"),
        ("queued", "import_one", "Import 2"),
    ]
    assert [len(run_id) - len(run_id.lstrip()) for run_id, *_ in lines] == [0, 2, 2]
    assert client.why(run.id).code.value == "waiting-for-children"
