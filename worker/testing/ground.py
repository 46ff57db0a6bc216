"""Ground: where a lab plays its runs. A real server, a prefix that nobody else has, a client and an app on them."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.base import Flow
from worker.announcement import describe
from worker.app import engine_of, make_app
from worker.client import Client
from worker.config_files import find_flows
from worker.embedded import EmbeddedServer
from worker.settings import load_settings
from worker.testing.watching import WatchedStore

if TYPE_CHECKING:
    from celery import Celery

    from worker.engine import Engine

#: Names the server for labs that are given none.
VARIABLE = "HOLDFAST_TEST_URL"


class Ground:
    """A server's place for one lab. Nothing is started before it is needed.

    Args:
        url: of a server; None for that of ``HOLDFAST_TEST_URL``, else an embedded one in a temporary directory.
    """

    def __init__(self, url: str | None = None) -> None:
        self._given = url or os.environ.get(VARIABLE) or None
        self._server: EmbeddedServer | None = None
        self._directory: Path | None = None

    @cached_property
    def engine(self) -> Engine:
        """The engine, on the lab's server; its settings are the project's own but for where things are."""
        prefix = f"lab-{uuid.uuid4().hex[:12]}"
        settings = load_settings().model_copy(update={"redis_url": self._given or self._start(), "broker_url": None, "prefix": prefix})
        find_flows(settings)
        engine = engine_of(make_app(settings))
        engine.store = WatchedStore(settings.redis_url or "", prefix)
        return engine

    @property
    def store(self) -> WatchedStore:
        """The store, whose clock the stories move."""
        assert isinstance(self.engine.store, WatchedStore)
        return self.engine.store

    def client(self, flow: Flow) -> LabClient:
        """A client that submits ``flow``, registered or not."""
        return LabClient(self.engine.app, flow)

    def close(self) -> None:
        """Close the connections; end the server, if it is the lab's own."""
        if "engine" in self.__dict__:
            self.engine.close()
            del self.engine
        if self._server is not None and self._directory is not None:
            self._server.stop()
            shutil.rmtree(self._directory, ignore_errors=True)
            self._server = None

    def _start(self) -> str:
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-lab-"))
        self._server = EmbeddedServer(self._directory, appendfsync="no")  # nobody reads it after a loss of power
        self._server.start()
        return self._server.url


class LabClient(Client):
    """A client for one flow, whatever the registry knows."""

    def __init__(self, app: Celery, flow: Flow) -> None:
        super().__init__(app=app)
        self._flow = flow

    def _checked(self, name: str, inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
        checked: Mapping[str, Any] = self._flow.check_inputs(inputs)
        return describe(self._flow), dict(checked), True
