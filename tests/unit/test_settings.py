"""The configuration files that ship say what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from perdure.worker.settings import Settings

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
