"""A run is submitted once more, as it was or changed: by the command, and by the form of the dashboard."""

from __future__ import annotations

import pytest

from perdure import Client
from perdure.worker.cli.main import run as perdure
from perdure.worker.settings import Settings
from tests.support.in_process_server import Site


def test_a_run_is_submitted_again_with_what_it_had_and_what_is_changed(
    client: Client,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = client.submit("countdown", "count", {"rounds": 2}, labels={"team": "a"})
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    words = ["again", first.id, "--input-json", "rounds=3", "--url", settings.redis_url or ""]
    assert perdure(words) == 0
    again = client.get(capsys.readouterr().out.strip())
    assert (again.flow, again.goal, again.labels) == ("countdown", "count", {"team": "a"})
    assert again.inputs["rounds"] == 3 and client.get(first.id).inputs["rounds"] == 2


def test_the_form_of_another_flow_is_filled_in_and_says_what_differs(client: Client) -> None:
    first = client.submit("countdown", "count", {"rounds": 2})
    page = Site(client).asking().get(f"/start?again={first.id}&flow=question").text
    assert f'name="again" value="{first.id}"' in page and "to the flow <bdi>countdown" in page
    assert "count</textarea>" in page
