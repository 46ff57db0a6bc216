"""Fixtures of all tests: servers of the session, a prefix a test, and clients on them.

Every process of pytest imports this module. A fixture that few tests use therefore imports the
parts of Perdure that it needs in its body: the client, Celery and the runtime cost as much as
pytest does.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.leftover_keys import keys_outside, keys_under
from tests.support.signals import restore_defaults

if TYPE_CHECKING:
    from perdure import Client
    from perdure.worker.settings import Settings
    from perdure.worker.store import Store
    from tests.support.rabbitmq import RabbitServer
    from tests.support.redis_servers import CrashableServer
    from tests.support.round_driver import Driver
    from tests.support.workers import WorkerProcess

hypothesis_settings.register_profile(
    "perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
hypothesis_settings.load_profile("perdure")

pytest_plugins = [
    "tests.support.cases",
    "tests.support.dashboard_fixtures",
    "tests.support.shares",
    "tests.support.tier_guard",
    "tests.support.wait_report",
]

#: kombu keeps the bindings of queues under names with this beginning.
KOMBU = "_kombu."
#: Each prefix of this session, and the test that had it.
PREFIXES: dict[str, str] = {}


def pytest_configure() -> None:
    """Keep the processes of tests from inheriting signals that this process was made to ignore."""
    restore_defaults()


@contextmanager
def session_server(binary: str) -> Iterator[CrashableServer]:
    """Start a server for the session; durable enough for all that do not kill it."""
    from tests.support.redis_servers import available_binaries
    from tests.support.redis_servers import server as server_of_its_own

    if binary not in available_binaries() and "CI" not in os.environ:
        pytest.skip(f"this machine has no {binary}-server")
    with server_of_its_own(binary, "everysec") as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[CrashableServer]:
    """The session's Valkey server: shared, never killed.

    A test that kills one makes its own (tests.support.redis_servers).
    """
    with session_server("valkey") as running:
        yield running


@pytest.fixture(scope="session", params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def any_server(request: pytest.FixtureRequest) -> Iterator[CrashableServer]:
    """Each kind of server for Perdure, in turn."""
    if request.param == "valkey":
        yield request.getfixturevalue("server")
    else:
        with session_server(request.param) as running:
            yield running


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitServer]:
    """The session's RabbitMQ: shared, never killed nor frozen.

    A test that does so makes its own (tests.support.rabbitmq).
    """
    from tests.support.rabbitmq import rabbit_binary, rabbit_server

    if rabbit_binary() is None and "CI" not in os.environ:
        pytest.skip("this machine has no rabbitmq-server")
    with rabbit_server() as running:
        yield running


@pytest.fixture
def own_server() -> Iterator[CrashableServer]:
    """A server that the test may kill."""
    from tests.support.redis_servers import server as server_of_its_own

    with server_of_its_own("valkey") as running:
        yield running


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test has."""
    return f"t{uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test with a prefix on a shared server: check that all keys have the prefix, and
    delete them.
    """
    used = [name for name in ("any_server", "server") if name in request.fixturenames]
    if not used or "prefix" not in request.fixturenames:
        yield
        return
    import redis

    running, prefix = request.getfixturevalue(used[0]), request.getfixturevalue("prefix")
    PREFIXES[prefix] = request.node.nodeid
    yield
    with redis.Redis.from_url(running.url) as client:
        leaked = keys_outside(client, prefix, [KOMBU])
        mine = keys_under(client, prefix)
        if leaked or mine:
            client.delete(*leaked, *mine)
    late = {key: PREFIXES[owner] for key in leaked if (owner := key.partition(":")[0]) in PREFIXES}
    assert not leaked, (
        f"keys outside the prefix {prefix} of this test: {leaked};"
        f" written after the end of the test that they belong to: {late or 'none'}"
    )


@pytest.fixture(autouse=True)
def no_queue_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the test's queues on the session's RabbitMQ."""
    if not {"rabbit", "prefix"} <= set(request.fixturenames):
        yield
        return
    running, prefix = request.getfixturevalue("rabbit"), request.getfixturevalue("prefix")
    yield
    running.forget(prefix)


@pytest.fixture(autouse=True)
def no_module_stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After a test that imported files of its folder: the next one may use their names."""
    folders = os.path.join(tmp_path_factory.getbasetemp(), "")
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(folders):
            del sys.modules[name]


@pytest.fixture(autouse=True, scope="module")
def no_heartbeat_stays() -> Iterator[None]:
    """After a file whose tests played rounds in this process: no thread extends leases any more.

    Thousands of such threads, a few of each test, once took both cores at the end of a long suite.
    """
    before = {each.ident for each in threading.enumerate()}
    yield
    stay = [
        each
        for each in threading.enumerate()
        if each.name == "perdure-heartbeat" and each.ident not in before
    ]
    assert not stay, f"close the runtime that plays rounds; its threads stay: {stay}"


@pytest.fixture
def store(server: CrashableServer, prefix: str) -> Iterator[Store]:
    """A store whose clock stands at START until the test moves it (``store.now += ms``)."""
    from perdure.worker.store import Store
    from tests.support.runs import START

    made = Store(server.url, prefix, now=START)
    yield made
    made.close()


@pytest.fixture
def settings(request: pytest.FixtureRequest, server: CrashableServer, prefix: str) -> Settings:
    """Defaults, on the session's server under the test's prefix.

    ``pytestmark = pytest.mark.settings(flow_modules=("shop",))`` changes some of them.
    """
    from perdure.worker.settings import Settings

    changed: dict[str, Any] = {}
    for mark in request.node.iter_markers("settings"):  # the closest one first
        changed = mark.kwargs | changed
    return Settings(redis_url=server.url, prefix=prefix, **changed)


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    from perdure import Client

    made = Client(settings=settings)
    yield made
    made.close()


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    """Plays rounds in the test's own process."""
    from tests.support.round_driver import driving

    with driving(settings) as made:
        yield made


class StartsWorkers(Protocol):
    """``worker_process(*options, app=..., PERDURE_X=...)``: a worker that has announced itself."""

    def __call__(
        self, *options: str, app: str = "perdure.app", **environment: str
    ) -> WorkerProcess: ...


@pytest.fixture
def worker_process(settings: Settings) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts ``celery -A perdure.app worker`` in a separate process group, which is killed after
    the test.
    """
    from tests.support.workers import WorkerProcess

    with ExitStack() as running:

        def start(*options: str, **environment: Any) -> WorkerProcess:
            process = WorkerProcess(settings, *options, **environment)
            running.callback(process.close)
            return process.ready()

        yield start
