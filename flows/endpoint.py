"""Endpoint: where this worker's models are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What whoever runs a worker says about models; a flow may say otherwise.

    Attributes:
        model: ``provider:name`` as the model library knows it, or a bare name for a server that speaks OpenAI's protocol.
        url: base URL of such a server.
        key: where its key is found: ``env:NAME``. Never the key itself.
    """

    model: str | None = None
    url: str | None = None
    key: str | None = None
