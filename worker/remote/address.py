"""Address: where a control room is, and how one shows who one is there."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from worker.errors import InvalidSettings
from worker.places import place_of

#: Where a control room has its API.
API = "/api/v1"
#: What a header can carry.
TOKEN = re.compile(r"[!-~]+")


class Address(NamedTuple):
    """Where the API is, what to call that, and the user and password for what stands in between."""

    api: str
    shown: str
    login: tuple[str, str] | None


def read(url: str) -> Address:
    """The address that a URL names; raises InvalidSettings."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidSettings(f"the address of a control room should be like https://runs.example.org; it is {place_of(url)!r}")
    where = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/") or API
    login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return Address(f"{parts.scheme}://{where}{path}", place_of(url), login)


def headers(address: Address, token: str | None) -> dict[str, str]:
    """What goes with each request; raises InvalidSettings, which does not tell the token."""
    if token is None:
        return {}
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise InvalidSettings("the token should be one of `holdfast token create`, without spaces or line ends; this is none")
    if address.login is not None:
        raise InvalidSettings(f"{address.shown} was given both a token and a user in its URL; a request can carry only one of them")
    return {"Authorization": f"Bearer {token}"}


def _split(url: object) -> SplitResult | None:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        _ = parts and parts.port  # raises ValueError where it is no number
    except ValueError:
        return None
    return parts
