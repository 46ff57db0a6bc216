"""Listening: a server without tokens is open to whoever reaches it, so only this machine may."""

from __future__ import annotations

from worker.client.tokens import Tokens
from worker.errors import InvalidSettings
from worker.web.access.origin import is_loopback


def check_listening(host: str, tokens: Tokens) -> None:
    """Refuse to listen where other machines reach it before there is a token; raises InvalidSettings.

    Should the last token be revoked later, nobody gets in from elsewhere: who asks without a token is let in over loopback only.
    """
    if not is_loopback(host) and not tokens.any():
        raise InvalidSettings(
            f"the server would listen at {host or 'every address'}, where other machines reach it, and there is no token: whoever came "
            "could do everything. Make one first (holdfast token create NAME --scope admin), or listen on 127.0.0.1"
        )
