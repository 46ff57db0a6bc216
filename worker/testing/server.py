"""The lab's server: a real server with a unique prefix, and the client and app of a lab."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
import uuid
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.flows.rounds.flow import Flow
from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.embedded import EmbeddedServer
from perdure.worker.flow_registration import find_flows
from perdure.worker.operations.session import Session
from perdure.worker.settings import load_settings
from perdure.worker.testing.instrument import WatchedStore

if TYPE_CHECKING:
    from celery import Celery

    from perdure.worker.runtime.runtime import Runtime

#: Environment variable with the URL of the server for labs without a URL.
VARIABLE = "PERDURE_TEST_URL"
#: Prefix of the embedded servers' directories, inside the directory for temporary files.
DIRECTORY = "perdure-lab-"
#: Age in seconds from which a directory without an owner is left over. A younger directory may
#: belong to a lab that is just starting.
LEFT_OVER = 600.0


class LabServer:
    """The state server of one crash lab.

    Args:
        url: URL of a Redis or Valkey server. None means the server of ``PERDURE_TEST_URL``, else an
            embedded server in a temporary directory, which is started on first use.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url or os.environ.get(VARIABLE) or None
        self._server: EmbeddedServer | None = None
        self._directory: Path | None = None

    @cached_property
    def engine(self) -> Runtime:
        """The runtime on the lab's server.

        Server, broker and prefix are the lab's. All other settings are those of the project.
        """
        prefix = f"lab-{uuid.uuid4().hex[:12]}"
        settings = load_settings().model_copy(
            update={"redis_url": self._url or self._start(), "broker_url": None, "prefix": prefix}
        )
        find_flows(settings)
        engine = engine_of(make_app(settings))
        engine.store = WatchedStore(settings.redis_url or "", prefix)
        return engine

    @property
    def store(self) -> WatchedStore:
        """The store on the crash lab's state server. The lab controls the store's clock."""
        assert isinstance(self.engine.store, WatchedStore)
        return self.engine.store

    def client(self, flow: Flow) -> LabClient:
        """Return a client that submits runs of this flow. The flow need not be registered."""
        return LabClient(self.engine.app, flow)

    def close(self) -> None:
        """Close the connections. If the lab started the server, stop it and delete its data."""
        if "engine" in self.__dict__:
            self.engine.close()
            del self.engine
        if self._server is not None and self._directory is not None:
            self._server.stop()
            shutil.rmtree(self._directory, ignore_errors=True)
            self._server = None
            atexit.unregister(self.close)

    def _start(self) -> str:
        _clear_up()
        self._directory = Path(tempfile.mkdtemp(prefix=DIRECTORY))
        # Nothing has to survive a power failure.
        self._server = EmbeddedServer(self._directory, appendfsync="no")
        atexit.register(self.close)
        self._server.start()
        return self._server.url


def _clear_up() -> None:
    """Stop the embedded servers of crash labs that were killed, and delete their directories.

    Directories younger than ``LEFT_OVER`` seconds are not touched.
    """
    for directory in Path(tempfile.gettempdir()).glob(f"{DIRECTORY}*"):
        try:
            status = directory.stat()
        except FileNotFoundError:
            continue  # its lab has just deleted it
        if status.st_uid != os.geteuid() or time.time() - status.st_mtime < LEFT_OVER:
            continue
        server = EmbeddedServer(directory)
        if server.alive():
            # The server runs already. This takes ownership, unless a living process owns it.
            server.start()
            if not server.owned:
                continue
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


class LabSession(Session):
    """A client's session that knows only the lab's flow. The flow need not be registered."""

    def __init__(self, app: Celery, flow: Flow) -> None:
        super().__init__(app=app)
        self._flow = flow

    def make_flow(self, name: str) -> Flow:
        """Return the lab's flow, whatever ``name`` is."""
        return self._flow


class LabClient(Client):
    """A client that submits runs of one flow. The flow need not be registered."""

    def __init__(self, app: Celery, flow: Flow) -> None:
        self._session = LabSession(app, flow)
        self.settings = self._session.settings
