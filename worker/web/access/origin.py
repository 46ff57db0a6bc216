"""Where a request comes from: what a browser says of the page that made it, and whether the host it names is this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

#: Methods that change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")
#: What a page of any site may send without asking first, because forms can.
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
#: What stands in a request that a proxy has passed on.
PASSED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def is_from_elsewhere(request: HTTPConnection) -> bool:
    """Whether another site's page made this request.

    A browser says so itself, in ``Sec-Fetch-Site``, which no page can set; where it does not (plain http beyond this machine, old ones),
    ``Origin`` names the page's host. Who sends neither is no browser.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and origin.lower().partition("://")[2] != request.headers.get("host", "").lower()


def is_from_browser(request: HTTPConnection) -> bool:
    """Whether a browser may have made this request, so that it may be another site's doing."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in FORMS or any(name in request.headers for name in ("cookie", "origin", "referer", "sec-fetch-site", "sec-fetch-mode"))


def is_this_machine(request: HTTPConnection) -> bool:
    """Whether the request came over loopback, and not through a proxy."""
    server = request.scope.get("server")
    return server is not None and is_loopback(str(server[0])) and not any(name in request.headers for name in PASSED_ON)


def names_this_machine(request: HTTPConnection) -> bool:
    """Whether the host that was asked for is this machine under one of its own names.

    Any other name may be an attacker's that leads here (DNS rebinding): to a browser his page would then be of the same origin as ours.
    """
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and no other can be meant: ``localhost``, or an address of loopback."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
