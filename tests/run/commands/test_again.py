"""A run is submitted once more, as it was or changed: by the command, and by the form of the dashboard."""

from __future__ import annotations

from pathlib import Path

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.in_process_server import Site


def test_a_run_is_submitted_again_with_what_it_had_and_what_is_changed(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    first = client.submit("countdown", "count", {"rounds": 2}, labels={"team": "a"})
    done = CommandLine(tmp_path, settings)("again", first.id, "--input-json", "rounds=3")
    assert done.code == 0
    again = client.get(done.out.strip())
    assert (again.flow, again.goal, again.labels) == ("countdown", "count", {"team": "a"})
    assert again.inputs["rounds"] == 3 and client.get(first.id).inputs["rounds"] == 2


def test_the_form_of_another_flow_is_filled_in_and_says_what_differs(client: Client) -> None:
    first = client.submit("countdown", "count", {"rounds": 2})
    page = Site(client).asking().get(f"/start?again={first.id}&flow=question").text
    assert f'name="again" value="{first.id}"' in page and "to the flow <bdi>countdown" in page
    assert "count</textarea>" in page
