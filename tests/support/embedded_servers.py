"""Programs and directories for servers that Perdure starts by itself."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.worker.embedded.files import ServerFiles
from perdure.worker.embedded.launch import probe
from tests.support.redis_servers import CrashableServer, available_binaries, until

BINARIES = available_binaries()


@pytest.fixture(params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def binary(request: pytest.FixtureRequest) -> Path:
    if request.param not in BINARIES:
        pytest.skip(f"no {request.param} on this machine")
    return BINARIES[request.param]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A state directory; processes that run there at the end are killed."""
    path = Path(tempfile.mkdtemp(prefix="hf-"))
    yield path
    _kill_what_runs(path)
    shutil.rmtree(path)


def _kill_what_runs(directory: Path) -> None:
    for state in (directory, directory / "state"):
        answer = probe(ServerFiles(state).socket())
        if answer is not None and answer.pid is not None:
            os.kill(answer.pid, signal.SIGKILL)
            until(CrashableServer(state).ended, f"the end of server {answer.pid}")
