"""Signed webhooks to public addresses (Standard Webhooks specification).

The signature is an HMAC-SHA256 of id, time and body. Receivers can check the signature with any
library for that specification (https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import ssl
import time
from collections.abc import Callable, Sequence
from functools import cache
from urllib.parse import urlsplit

from perdure.flows.core.errors import FatalError
from perdure.flows.core.public_addresses import Address, is_foreign, resolve
from perdure.flows.core.public_connections import connect, cut_off
from perdure.flows.core.secrets import is_reference, secret_of
from perdure.worker.features.notifications.notification import NotDelivered
from perdure.worker.features.notifications.rules import check_webhook_url

#: Seconds for one attempt, from the look-up of the name to the reply.
SECONDS = 15.0
#: Prefix of a secret, which base64 follows.
SECRET_PREFIX = "whsec_"  # noqa: S105 - no secret
#: Minimum bytes of a secret. The specification wants 24 to 64.
SHORTEST_SECRET = 24
#: Longest wait (seconds) that a receiver's ``Retry-After`` is granted.
LONGEST_WAIT = 3600.0
#: Replies that concern the receiver as a whole and not this one message.
BUSY = frozenset({408, 425, 429})
#: Reply of a receiver that no longer wants messages of this webhook.
GONE = 410
_PORTS = {"http": 80, "https": 443}


def secret_bytes(reference: str) -> bytes:
    """Return the key that signs webhooks, as bytes.

    Args:
        reference: the reference (``env:NAME``) to the secret that contains the key.

    Raises:
        NotDelivered: this process has no such secret, or the secret is too short or not base64.
    """
    try:
        text = secret_of(reference, "the secret of a webhook")
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except FatalError as error:
        raise NotDelivered(str(error), concerns_receiver=True) from error
    except binascii.Error:
        key = b""
    if len(key) < SHORTEST_SECRET:
        raise NotDelivered(
            f"the secret of a webhook, {reference}, should be {SECRET_PREFIX} and at least "
            f"{SHORTEST_SECRET} random bytes in base64. To make one: "
            "echo whsec_$(openssl rand -base64 32)",
            concerns_receiver=True,
        )
    return key


def signed_headers(
    message_id: str, at: int, body: bytes, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Return the three headers of a webhook: id, time and one signature for each secret.

    Args:
        at: the time of the attempt, in seconds since 1970.
        secrets: the keys that sign.
    """
    content = b".".join((message_id.encode(), str(at).encode(), body))
    signatures = (
        base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()
        for secret in secrets
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def send_webhook(
    url: str,
    message_id: str,
    body: bytes,
    secrets: Sequence[str],
    *,
    private: bool = False,
    seconds: float = SECONDS,
) -> None:
    """Send a webhook once. A reply with a status of 2xx means that the receiver accepted it.

    A redirect is not followed and counts as a failure: the new URL belongs into the settings.

    Args:
        url: URL of the receiver, or ``env:NAME``.
        secrets: references (``env:NAME``) to the secrets that sign.
        private: whether addresses that are not public are allowed.
        seconds: time limit of the attempt.

    Raises:
        NotDelivered: the receiver did not accept the webhook, or its address is not allowed.
    """
    try:
        address = secret_of(url, "the URL of a webhook") if is_reference(url) else url
        check_webhook_url(address)
    except (FatalError, ValueError) as error:
        raise NotDelivered(f"the URL of a webhook: {error}", concerns_receiver=True) from error
    keys = [secret_bytes(each) for each in secrets]
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "perdure",
        **signed_headers(message_id, int(time.time()), body, keys),
    }
    parts = urlsplit(address)
    host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    end = time.monotonic() + seconds
    try:
        status, retry_after = _post(
            parts.scheme, host, port, target, headers, body, end, _anyone if private else is_foreign
        )
    except PermissionError as error:
        raise NotDelivered(
            f"{error}. To allow such addresses, set private_webhooks = true", concerns_receiver=True
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = f" within {seconds:g} s" if time.monotonic() >= end else ""
        raise NotDelivered(
            f"no reply from {host}{late}: {str(error) or type(error).__name__}",
            concerns_receiver=True,
        ) from error
    if not 200 <= status < 300:
        raise NotDelivered(
            f"{host} replied with status {status}",
            concerns_receiver=status >= 500 or status in BUSY,
            is_final=status == GONE,
            after=retry_after,
        )


def _anyone(_: Address) -> bool:
    return True


def _post(
    scheme: str,
    host: str,
    port: int,
    target: str,
    headers: dict[str, str],
    body: bytes,
    end: float,
    allowed: Callable[[Address], bool],
) -> tuple[int, float | None]:
    """Send one POST request, and return the status and ``Retry-After``.

    The host's name is resolved once. All its addresses must be allowed, and the request goes to the
    first address that can be reached. So a later change of the name cannot send the request to
    another address.

    Args:
        target: the path and the query of the URL.
        end: the time limit (monotonic seconds).
        allowed: returns whether requests may go to an address.

    Returns:
        The status, and the seconds of the header ``Retry-After``, at most ``LONGEST_WAIT``. None in
            place of the seconds if the header is missing or is a date.

    Raises:
        PermissionError: at least one of the host's addresses is not allowed. Nothing was sent, even
            if other addresses are allowed.
        OSError, HTTPException: the request failed, or the reply was not complete in time.
    """
    connection = http.client.HTTPConnection(host, port)
    connection.sock = connect(resolve(host, port, allowed), port, end)
    if scheme == "https":
        connection.sock = _tls().wrap_socket(
            connection.sock, server_hostname=host, do_handshake_on_connect=False
        )
    with connection.sock as sock, cut_off(sock, end):
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        connection.request("POST", target, body=body, headers=headers)
        response = connection.getresponse()
    if time.monotonic() >= end:
        raise TimeoutError("the reply was not complete in time")
    return response.status, _seconds(response.getheader("Retry-After"))


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _seconds(text: str | None) -> float | None:
    """Return a ``Retry-After`` header in seconds, at most ``LONGEST_WAIT``.

    Args:
        text: the header. None if it is missing.

    Returns:
        The seconds. None if the header is missing or has no number of seconds (a date).
    """
    if text is None or not text.isdecimal() or len(text) > 9:
        return None
    return min(float(text), LONGEST_WAIT)
