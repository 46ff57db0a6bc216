"""Runs of the flow swarm, which follow the replies that they are given."""

from __future__ import annotations

from typing import Any

from perdure import Client, Run


def swarm(client: Client, *replies: Any, **options: Any) -> Run:
    return client.submit("swarm", "g", {"replies": list(replies)}, **options)
