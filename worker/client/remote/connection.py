"""Connection to an HTTP API: its URL, the token, requests, and the errors of failed requests."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from perdure.flows.core.json_values import storable
from perdure.worker.client.remote.problems import raise_problem
from perdure.worker.errors import InvalidInput, InvalidSettings
from perdure.worker.features.clients import RemoteClientFeatures
from perdure.worker.http_urls import HttpAddress, parse_http
from perdure.worker.operations import validation
from perdure.worker.operations.session import not_found
from perdure.worker.store import StoreUnavailable
from perdure.worker.tracing import propagation
from perdure.worker.urls import place_of

if TYPE_CHECKING:
    import httpx2

#: Path of the API on the server process (``perdure server``).
API = "/api/v1"
#: Characters that a header can carry.
TOKEN = re.compile(r"[!-~]+")


def read(url: str) -> HttpAddress:
    """Parse the URL of an HTTP API into its address.

    Raises:
        InvalidSettings: The URL cannot be that of an HTTP API.
    """
    address = parse_http(url, API)
    if address is None:
        raise InvalidSettings(
            "the URL of an HTTP API should be like https://runs.example.org; "
            f"it is {place_of(url)!r}"
        )
    return address


def headers(address: HttpAddress, token: str | None) -> dict[str, str]:
    """Return the HTTP headers with an access token, for each request. Empty if it is None.

    Raises:
        InvalidSettings: The token is not valid, or the URL has a user although there is a token.
            The text does not contain the token.
    """
    if token is None:
        return {}
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise InvalidSettings(
            "the token should be one of `perdure token create`, without spaces or line ends; "
            "this is none"
        )
    if address.login is not None:
        raise InvalidSettings(
            f"{address.shown} was given both a token and a user in its URL; "
            "a request can carry only one of them"
        )
    return {"Authorization": f"Bearer {token}"}


def not_here(**given: object) -> None:
    """Raise InvalidInput if an argument is not None.

    The arguments name a caller or an owner. Over HTTP, the access token identifies the caller.
    """
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{name} cannot be passed over HTTP, where the token says who calls; leave it out"
            )


#: Seconds for which an idle connection is reused. Servers keep connections longer, so that none is
#: closed during a request.
REST_SECONDS = 2.0
#: Seconds to wait before each retry, with jitter. They bridge a restart behind a load balancer.
#: After that the caller decides.
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
#: Seconds to wait for a connection.
CONNECT_SECONDS = 5.0


class RemoteConnection(RemoteClientFeatures):
    """The connections to one server. The arguments are those of ``RemoteClient``."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        validation.timeout(timeout)
        self._address = read(url)
        self._timeout = timeout
        own_headers = headers(self._address, token)
        httpx2 = self._library = _library()
        self._http = httpx2.Client(
            headers={"Accept": "application/json", **own_headers},
            auth=self._address.login,
            timeout=httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=REST_SECONDS),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r})"

    def close(self) -> None:
        """Close the connections of this client."""
        self._http.close()

    def _ask(self, path: str, **params: str | int | list[str] | None) -> Any:
        """Send a GET request, and return the JSON value of the response.

        Args:
            params: The query of the request. None values are left out.
        """
        return self._sent("GET", path, params=params).json()

    def _tell(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: bool = False,
        **headers: str | None,
    ) -> Any:
        """Send a request that changes something, and return the JSON value of the response.

        Args:
            body: The JSON body. None: the request has no body.
            repeat: Whether the request may be sent again if no response came, because the server
                carries it out only once.
            headers: Further headers, with ``_`` for ``-``. None values are left out.

        Returns:
            The JSON value, or None if the response is empty.
        """
        content = (
            None
            if body is None
            else json.dumps(storable(dict(body), "what was asked for"), ensure_ascii=False)
        )
        kind = {} if content is None else {"Content-Type": "application/json"}
        given = {name.replace("_", "-"): text for name, text in headers.items() if text is not None}
        answer = self._sent(method, path, repeat=repeat, content=content, headers={**kind, **given})
        return answer.json() if answer.content else None

    def _sent(
        self, method: str, path: str, repeat: bool | None = None, **request: Any
    ) -> httpx2.Response:
        repeat = method == "GET" if repeat is None else repeat
        params = {
            name: value for name, value in request.pop("params", {}).items() if value is not None
        }
        if params:  # Even empty ones would replace a query that the path has.
            request["params"] = params
        request["headers"] = {**propagation.headers(), **request.get("headers", {})}
        for pause in (*PAUSES, None):
            try:
                answer: httpx2.Response = self._http.request(
                    method, f"{self._address.api}{path}", **request
                )
            except self._library.TransportError as error:
                never_sent = isinstance(
                    error, self._library.ConnectError | self._library.ConnectTimeout
                )
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
        done = (
            ""
            if method == "GET" or not sent
            else "; the request may have been carried out: check the run before you send it again"
        )
        return StoreUnavailable(
            f"no answer from the HTTP API at {self._address.shown}: {what}{done}"
        )


def path_of(run_id: str, *more: str) -> str:
    """Return the path of a run in the HTTP API, or of a resource below the run.

    Args:
        more: Further segments of the path, such as ``artifacts`` and a name.

    Raises:
        RunNotFound: No run can have this id.
    """
    if not validation.is_run_id(run_id):
        raise not_found(run_id)
    return "/".join(("/runs", *map(segment, (run_id, *more))))


def segment(text: str) -> str:
    """Return a text, percent-encoded as one segment of a URL's path.

    HTTP libraries remove the segments ``.`` and ``..`` from a path, so their dots are encoded too.
    """
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _library() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise InvalidSettings(
            "RemoteClient needs httpx2, which is not installed: pip install 'perdure[server]'"
        ) from error
    return httpx2
