"""The services of docker-compose.yml as processes of this machine, without Docker.

Each service has the command, the environment and the health check of the file and the Dockerfile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.command_line import COMMAND, ROOT
from tests.support.os_processes import end_all

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
#: The cores of this machine have many tests to run beside a check that takes half a second of one.
BUSY = 10
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def interpolated(text: str) -> str:
    """Read ``${NAME:-default}`` as Compose does without variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def instruction(name: str) -> list[str]:
    """Return the words of the last instruction of this name in the Dockerfile; it must be in exec
    form.
    """
    return list(yaml.safe_load(re.findall(rf"(?m)^{name} (\[.*\])$", DOCKERFILE)[-1]))


def program(words: list[str]) -> list[str]:
    """Return a container's command for this machine: ``perdure`` is this checkout's, with nothing
    between it and the signals.
    """
    return [*{"perdure": COMMAND, "python": [sys.executable]}[words[0]], *words[1:]]


class Container:
    """A service's process and environment.

    Args:
        elsewhere: parts of its command and its check, and their stand-ins on this machine;
            with NUL, several words.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        url: str,
        prefix: str,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        service = SERVICES[name]
        given = {key: interpolated(value) for key, value in service["environment"].items()}
        assert given["PERDURE_REDIS_URL"] == "redis://valkey:6379/0", (
            "the server is named like its service"
        )
        bare = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PERDURE_", "CELERY_"))
        }
        self.environment = {
            **bare,
            **given,
            "PYTHONPATH": str(ROOT),
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
        }
        self.environment |= {
            "PERDURE_REDIS_URL": url,
            "PERDURE_PREFIX": prefix,
            "PERDURE_FLOW_MODULES": "my_flows",
        }
        self.directory = directory
        self.health = service["healthcheck"]
        self._elsewhere = dict(elsewhere or {})
        #: Its output.
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as said:
            self.process = subprocess.Popen(
                program(self._here([*instruction("ENTRYPOINT"), *service["command"]])),
                cwd=directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def check(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the health check as Docker does."""
        kind, *words = self.health["test"]
        assert kind == "CMD", "no shell, no grep: nothing that can be healthy by accident"
        return subprocess.run(
            program(self._here(words)),
            cwd=self.directory,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=BUSY * seconds(self.health["timeout"]),
            check=False,
        )

    def healthy(self) -> bool:
        return self.check().returncode == 0

    def _here(self, words: Sequence[str]) -> list[str]:
        for there, here in self._elsewhere.items():
            words = [word.replace(there, here) for word in words]
        return [part for word in words for part in word.split("\0")]

    def end(self) -> None:
        end_all(self.process)


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])
