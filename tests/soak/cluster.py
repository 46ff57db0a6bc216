"""Cluster: one server, a proxy in front of it, and four workers of two pools, half of them behind
the proxy.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import Settings
from perdure.worker.domain.record import SCHEMA
from perdure.worker.errors import PerdureError
from tests.soak.ledger import Ledger
from tests.soak.proxy import Proxy
from tests.soak.server import SoakServer
from tests.soak.workload import LEDGER
from tests.support.os_processes import children
from tests.support.redis_servers import until
from tests.support.workers import ROOT, WorkerProcess

PREFIX = "soak"
FLOWS = "tests.soak.workload"
THREADS = ("--pool", "threads", "--concurrency", "16")
PREFORK = ("--pool", "prefork", "--concurrency", "4")
#: The workers: their pool, and whether they reach the server through the proxy.
WORKERS = {
    "w1": (THREADS, False),
    "w2": (THREADS, True),
    "w3": (PREFORK, False),
    "w4": (PREFORK, True),
}
#: Lines of a worker's log that are shown where it ended by itself.
LAST_WORDS = 60
#: The log text of a worker that does not start, and its distance from the end of the log.
REFUSED, LAST_WORDS_OF_REFUSAL = "this worker does not start", 5
#: The parts of the tree in another version of the code.
CODE = ("perdure", "tests")


@dataclass
class Place:
    """One of the four workers, whichever process it is now."""

    name: str
    options: tuple[str, ...]
    settings: Settings
    worker: Any = None
    started: list[tuple[float, int]] = field(default_factory=list)

    @property
    def prefork(self) -> bool:
        return self.options == PREFORK

    @property
    def pid(self) -> int:
        """The process that receives messages; it leads the group."""
        return int(self.worker.process.pid)

    def pids(self) -> list[int]:
        """Return all its processes."""
        return [self.pid, *children(self.pid)]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_ended(self, seconds: float) -> bool:
        """Wait for its main process; return whether it ended."""
        with suppress(AssertionError):
            until(
                lambda: self.worker.process.poll() is not None, f"the end of {self.name}", seconds
            )
        return self.worker.process.poll() is not None

    def announced(self) -> bool:
        """Return whether this process is announced; False if the server does not answer."""
        with suppress(PerdureError):
            return self.worker.name is not None
        return False


class Cluster:
    """All processes, in a temporary directory. Use it as a context manager."""

    #: Plain Celery's differs here.
    app = "perdure.app"

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="soak-"))
        self.ledger = Ledger(self.directory)
        self.server = SoakServer(self.directory)
        self.proxy = Proxy(self.server.socket)
        self._versions: dict[str, Path] = {}
        self.places: list[Place] = []
        #: Workers that ended by themselves.
        self.fallen: list[str] = []
        #: How often one refused to start.
        self.refusals = 0

    def __enter__(self) -> Cluster:
        try:
            self.server.start()
            self.proxy.start()
            self.places = [
                Place(name, options, self.settings(proxied))
                for name, (options, proxied) in WORKERS.items()
            ]
            for place in self.places:
                self.launch(place)
            self.ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for place in self.places:
            if place.worker is not None:
                place.signal(signal.SIGCONT)
                place.worker.close()
        self.proxy.stop()
        self.server.stop()
        shutil.rmtree(self.directory)

    def settings(self, proxied: bool) -> Settings:
        """Return Perdure's defaults, on this server."""
        url = self.proxy.url if proxied else self.server.url
        return Settings(redis_url=url, prefix=PREFIX, flow_modules=(FLOWS,))

    def environment(self, place: Place) -> dict[str, str]:
        return {"PERDURE_FLOW_MODULES": FLOWS, LEDGER: str(self.directory)}

    def launch(self, place: Place, version: str = "this") -> None:
        """Start a worker in the place; of another version of the code, where one is named (`newer`,
        `older`).
        """
        if place.worker is not None:
            place.worker.close()
        root = ROOT if version == "this" else self._version(version)
        place.worker = WorkerProcess(
            place.settings,
            *place.options,
            app=self.app,
            root=root,
            log=self.log(place),
            **self.environment(place),
        )
        place.started.append((time.time(), place.pid))

    def ready(self) -> None:
        """Wait until all workers are announced."""
        for place in self.places:
            place.worker.ready()

    def still(self) -> None:
        """End all workers, so that the data stays."""
        for place in self.places:
            place.worker.kill()

    def mind_the_fallen(self) -> None:
        """Start workers again that ended by themselves, as a supervisor does, and remember why.

        A worker may refuse to start if the server's clock is wrong. But no fault of the ground ends
        a running worker. Do not call it while another thread ends workers.
        """
        for place in self.places:
            if place.worker.process.poll() is not None:
                said = self.log(place).read_text(errors="replace").splitlines()[-LAST_WORDS:]
                if any(REFUSED in line for line in said[-LAST_WORDS_OF_REFUSAL:]):
                    self.refusals += 1
                else:
                    end = f"{place.name} ended by itself with {place.worker.process.returncode}; its last words:"
                    self.fallen.append("\n".join([end, *said]))
                self.launch(place)

    def log(self, place: Place) -> Path:
        return self.directory / f"{place.name}.log"

    def _version(self, name: str) -> Path:
        """Make a copy of the code.

        `newer`: its scripts have other texts, and so other digests. `older`: it knows no run of
        today's schema.
        """
        if name not in self._versions:
            root = self.directory / name
            for part in CODE:
                shutil.copytree(
                    ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__")
                )
            if name == "newer":
                for script in (root / "perdure/worker/store/lua/parts").glob("*.lua"):
                    script.write_text(script.read_text() + "\n-- of a newer version\n")
            else:
                record = root / "perdure/worker/domain/record.py"
                text = record.read_text()
                line = f'SCHEMA = "{SCHEMA}"'
                assert text.count(line) == 1, (
                    f"{record} has {line!r} {text.count(line)} times; the older version must know an older schema"
                )
                record.write_text(text.replace(line, 'SCHEMA = "0"'))
            self._versions[name] = root
        return self._versions[name]
