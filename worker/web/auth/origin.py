"""The origin of a request: a site, and a machine.

The site is that of the page that made a browser send the request.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

#: Methods that change nothing.
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: Content types that a page of any site may send without a CORS preflight, because forms can.
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
#: Headers that browsers send, and programs do not.
BROWSER_HEADERS = ("cookie", "origin", "referer", "sec-fetch-site")
#: Headers that a proxy adds to the requests that it forwards.
PROXY_HEADERS = (
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)


def is_from_elsewhere(request: HTTPConnection) -> bool:
    """Return whether a page of another site made a browser send a request.

    A browser states this in the header ``Sec-Fetch-Site``, which no page can set. Old browsers, and
    browsers that use plain http to another machine, do not send that header. Then ``Origin`` names
    the page's host. For a client that sends neither header, the result is False: it is no browser.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return (
        origin is not None
        and origin.lower().partition("://")[2] != request.headers.get("host", "").lower()
    )


def is_from_browser(request: HTTPConnection) -> bool:
    """Return whether a browser may have sent this request.

    The signs are a content type of HTML forms, or a header that only browsers send. The header
    ``Sec-Fetch-Mode: cors`` is no such sign: ``fetch`` of Node sends it with every request.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return (
        kind in FORM_TYPES
        or request.headers.get("sec-fetch-mode", "cors") != "cors"
        or any(
            name in request.headers for name in ("cookie", "origin", "referer", "sec-fetch-site")
        )
    )


def is_this_machine(request: HTTPConnection) -> bool:
    """Return whether a request came over loopback, and not through a proxy."""
    server = request.scope.get("server")
    return (
        server is not None
        and is_loopback(str(server[0]))
        and not any(name in request.headers for name in PROXY_HEADERS)
    )


def names_this_machine(request: HTTPConnection) -> bool:
    """Return whether the ``Host`` header names this machine.

    The header must have ``localhost`` or a loopback address. Any other name may belong to an
    attacker and resolve to this machine (DNS rebinding). To a browser, the attacker's page would
    then have the same origin as our pages.
    """
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether a host can only be this machine: ``localhost``, or a loopback address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
