"""The alert rules that ship: each has a scene, and leads to a page that is there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.alert_rules import ALERTS, ROOT, SCENES


def anchors(page: str) -> set[str]:
    """Return the possible anchors of a documentation page."""
    headings = re.findall(r"(?m)^#+ (.+)$", (ROOT / page).read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_documentation_lists_each_alert_with_its_severity() -> None:
    listed = dict(
        re.findall(
            r"(?m)^\| `(Perdure\w+)` \|.*\| (\w+) \|$",
            (ROOT / "docs" / "operations" / "metrics.md").read_text("utf-8"),
        )
    )
    assert listed == {alert["alert"]: alert["labels"]["severity"] for alert in ALERTS}


def test_each_alert_has_a_scene_in_which_it_comes() -> None:
    assert {alert["alert"] for alert in ALERTS} == set(
        re.findall(r'alertname="(\w+)"', SCENES.read_text("utf-8"))
    )


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_says_what_it_means_how_urgent_it_is_and_where_to_read_on(
    alert: dict[str, Any],
) -> None:
    told = alert["annotations"]
    assert set(told) == {"summary", "description", "runbook"}
    assert alert["labels"]["severity"] in ("page", "ticket")
    page, _, anchor = told["runbook"].partition("#")
    assert anchor in anchors(page)
