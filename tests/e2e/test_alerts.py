"""The alert rules that ship, as promtool takes and plays them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.alert_rules import ALERTS, ROOT, RULES, SCENES
from tests.support.prometheus import promtool


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
