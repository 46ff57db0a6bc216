"""Connected: requests to a control room, and what their failures are called."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flows.values import storable
from worker.client import arguments
from worker.client.connection import not_found
from worker.errors import InvalidSettings
from worker.remote import address
from worker.remote.problems import raise_problem
from worker.store import StoreUnavailable
from worker.telemetry import carried

if TYPE_CHECKING:
    import httpx2

#: Seconds that a connection may rest before another is made: less than any server keeps one, so that none is closed under a request.
REST_SECONDS = 2.0
#: Seconds to wait before each further try, with jitter: a restart behind a load balancer is bridged, and the caller decides after that.
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
#: Seconds for the server's own API to be connected to.
CONNECT_SECONDS = 5.0


class Connected:
    """The connections to one server. See RemoteClient."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        arguments.timeout(timeout)
        self._address = address.read(url)
        self._timeout = timeout
        headers = address.headers(self._address, token)
        httpx2 = self._library = _library()
        self._http = httpx2.Client(
            headers={"Accept": "application/json", **headers},
            auth=self._address.login,
            timeout=httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=REST_SECONDS),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r})"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, path: str, **params: str | int | list[str] | None) -> Any:
        """What is to be seen there."""
        return self._sent("GET", path, params=params).json()

    def _tell(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, repeat: bool = False, **headers: str | None) -> Any:
        """What is answered to something that changes runs; ``repeat``: sent twice, it is done once."""
        content = None if body is None else json.dumps(storable(dict(body), "what was asked for"), ensure_ascii=False)
        kind = {} if content is None else {"Content-Type": "application/json"}
        given = {name.replace("_", "-"): text for name, text in headers.items() if text is not None}
        answer = self._sent(method, path, repeat=repeat, content=content, headers={**kind, **given})
        return answer.json() if answer.content else None

    def _sent(self, method: str, path: str, repeat: bool | None = None, **request: Any) -> httpx2.Response:
        repeat = method == "GET" if repeat is None else repeat
        params = {name: value for name, value in request.pop("params", {}).items() if value is not None}
        request["headers"] = {**carried.headers(), **request.get("headers", {})}
        for pause in (*PAUSES, None):
            try:
                answer: httpx2.Response = self._http.request(method, f"{self._address.api}{path}", params=params, **request)
            except self._library.TransportError as error:
                never_sent = isinstance(error, self._library.ConnectError | self._library.ConnectTimeout)
                if pause is None or not (never_sent or repeat):
                    raise self._away(error, method, sent=not never_sent) from error
                time.sleep(pause * (0.5 + random.random()))
                continue
            if not answer.is_success:
                raise_problem(answer, self._address.shown)
            return answer
        raise AssertionError("the last try returns or raises")

    def _away(self, error: Exception, method: str = "GET", sent: bool = False) -> StoreUnavailable:
        what = str(error).rstrip(".") or type(error).__name__
        done = "" if method == "GET" or not sent else "; what was asked for may have been done: look before you ask again"
        return StoreUnavailable(f"no answer from the control room at {self._address.shown}: {what}{done}")


def path_of(run_id: str, *more: str) -> str:
    """The path of a run, or of something of it; raises RunNotFound where no run can have this id."""
    if not arguments.is_run_id(run_id):
        raise not_found(run_id)
    return "/".join(("/runs", *(quote(part, safe="") for part in (run_id, *more))))


def _library() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise InvalidSettings("a control room is spoken to with httpx2, which is not installed: pip install 'holdfast[server]'") from error
    return httpx2
