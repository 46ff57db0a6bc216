"""The alert rules that ship: promtool takes them, each comes when it should, and leads to a page that is there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.prometheus import promtool

ROOT = Path(__file__).parents[3]
RULES = ROOT / "config" / "prometheus" / "alerts.yml"
SCENES = ROOT / "tests" / "support" / "alerts.test.yml"
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]


def anchors(page: str) -> set[str]:
    """What a link to a heading of a page of the documentation may say."""
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


def test_promtool_takes_the_rules_and_the_configuration(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config" / "prometheus", tmp_path, dirs_exist_ok=True)
    (tmp_path / "token").touch()
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        configuration.read_text("utf-8").replace(
            "/run/secrets/prometheus_token", str(tmp_path / "token")
        )
    )
    checked = promtool("check", "config", configuration)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


@pytest.mark.slow
def test_each_alert_comes_when_it_should_and_not_otherwise() -> None:
    played = promtool("test", "rules", SCENES)
    assert played.returncode == 0, played.stdout + played.stderr


@pytest.mark.slow
def test_an_alert_that_comes_too_late_is_noticed(tmp_path: Path) -> None:
    """The scenes can fail."""
    (tmp_path / "alerts.yml").write_text(
        RULES.read_text("utf-8").replace(
            "perdure_due_oldest_seconds) > 30", "perdure_due_oldest_seconds) > 31"
        )
    )
    (tmp_path / "scenes.yml").write_text(
        SCENES.read_text("utf-8").replace("../../config/prometheus/alerts.yml", "alerts.yml")
    )
    assert promtool("test", "rules", tmp_path / "scenes.yml").returncode != 0


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
