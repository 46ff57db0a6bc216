"""The runtime of a worker, for tests that play rounds in their own process."""

from __future__ import annotations

from perdure import Client
from perdure.worker.app import engine_of, make_app
from perdure.worker.runtime.runtime import Runtime


def runtime_of(client: Client) -> Runtime:
    """Return a runtime on the client's store, always the same one; the client's ``close`` closes it too."""
    runtime: Runtime | None = vars(client).get("_runtime")
    if runtime is None:
        runtime = engine_of(client._app or make_app(client.settings))
        runtime.store = client._store
        vars(client)["_runtime"] = runtime
        close = client.close

        def close_both() -> None:
            runtime.close()  # writes what its heartbeat would write after the test
            close()

        vars(client)["close"] = close_both
    return runtime
