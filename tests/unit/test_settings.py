"""The shipped configuration files agree with the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings, load_settings

CONFIG = Path(__file__).parents[2] / "config"


def test_worker_toml_shows_every_setting_with_its_default() -> None:
    text = (CONFIG / "worker.toml").read_text("utf-8")
    shown = tomllib.loads(re.sub(r"(?m)^# (\w+ = )", r"\1", text))
    defaults = {name: field.get_default() for name, field in Settings.model_fields.items()}
    assert set(shown) == set(defaults)
    wrong = {
        name
        for name, value in defaults.items()
        if value is not None and shown[name] != _plain(value)
    }
    assert not wrong


def test_worker_toml_as_shipped_changes_nothing() -> None:
    assert tomllib.loads((CONFIG / "worker.toml").read_text("utf-8")) == {}


def test_a_worker_toml_of_another_program_is_ignored_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "worker.toml"
    file.write_text('queues = ["mail"]\n[retry]\nattempts = 3\n')
    assert load_settings() == Settings()
    assert "config/worker.toml is ignored: none of its keys (queues, retry)" in caplog.text
    for text in ("lease_second = 3\n", "concurrency = 2\nqueues = 1\n"):
        file.write_text(text)
        with pytest.raises(InvalidSettings, match=r"unknown setting .* in config/worker\.toml"):
            load_settings()


def test_redis_conf_keeps_what_was_acknowledged() -> None:
    lines = (CONFIG / "redis.conf").read_text("utf-8").splitlines()
    directives = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert directives["appendonly"] == "yes"
    assert directives["maxmemory-policy"] == "noeviction"
    assert directives["maxmemory"] == "2gb", "without a limit a full server is killed"
    assert directives["no-appendfsync-on-rewrite"] == "no"
    assert directives["appendfsync"] in {"everysec", "always"}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
