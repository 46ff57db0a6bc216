"""The modules that a new process has loaded, and the packages among them that cost time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

#: Packages that take time to load, and those that only some installations have.
WATCHED = {
    "amqp", "asyncio", "celery", "click", "fastapi", "httpx2", "jinja2", "kombu", "mcp",
    "multiprocessing", "openai", "opentelemetry", "prometheus_client", "pydantic", "pydantic_ai",
    "pydantic_settings", "pytest", "redis", "rich", "sqlite3", "ssl", "starlette", "uvicorn",
    "yaml",
}  # fmt: skip
REPORT = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"


def loaded(
    script: str, environment: Mapping[str, str] = os.environ, directory: Path | None = None
) -> set[str]:
    """Return the modules that a new process has loaded after the script."""
    done = subprocess.run(
        [sys.executable, "-c", script + REPORT],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{script}: {done.stderr}"
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    """Return the watched packages among the modules."""
    return {name.partition(".")[0] for name in modules} & WATCHED
