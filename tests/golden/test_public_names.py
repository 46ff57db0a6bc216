"""The public names: what can be imported, called, passed and read."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from perdure import Settings
from tests.golden import declarations
from tests.golden.golden_files import PRODUCT, compare

#: Modules that people may import, by what they are for.
MODULES = {
    "face": "perdure",
    "testing": "perdure.testing",
    "web": "perdure.worker.web",
    "pydantic_ai": "perdure.pydantic_ai",
    "openai_agents": "perdure.openai_agents",
    "langgraph": "perdure.langgraph",
    # ``celery -A APP`` names this one.
    "app": "perdure.worker.app",
}
PLUGIN = "perdure.worker.testing.plugin"


def test_public_names_and_signatures_are_those_of_the_golden_file() -> None:
    public: dict[str, Any] = {
        what: declarations.exported(import_module(name)) for what, name in MODULES.items()
    }
    tasks = import_module(MODULES["app"]).make_app(Settings()).tasks
    public["tasks"] = {name for name in tasks if name.startswith(f"{PRODUCT}.")}
    fixture = import_module(PLUGIN).crash_lab
    public["pytest plugin"] = {
        fixture.__name__: f"fixture {fixture._fixture_function_marker.scope}"
    }
    compare("public_names", public)
