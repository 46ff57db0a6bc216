"""Clients of each role of config/redis.acl, and the server's refusals by user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure import Client, Settings
from tests.support.acl_server import ROLES, LockedServer

FLOWS, WAITS = "tests.support.example_flows.rings", "tests.support.example_flows.waits"
FAMILIES, NOTES = "tests.support.example_flows.child_runs", "tests.support.example_flows.notes"
#: Optional requests, which their caller does without after a refusal: by the doctor, and by
#: redis-py when it connects.
DONE_WITHOUT = {"config|get", "client|setinfo", "client|maint_notifications"}


@pytest.fixture
def as_role(locked: LockedServer) -> Iterator[Callable[[str], Client]]:
    """Make clients with the login of a role."""
    made: list[Client] = []

    def client(role: str) -> Client:
        made.append(
            Client(
                settings=Settings(
                    redis_url=locked.url(role), flow_modules=(FLOWS, WAITS, FAMILIES, NOTES)
                )
            )
        )
        return made[-1]

    with locked.login("operator") as operator:
        operator.flushall()
    yield client
    for each in made:
        each.close()


def refused(locked: LockedServer) -> set[tuple[str, str]]:
    """Return the server's refusals: user and object."""
    with locked.login("operator") as operator:
        log: Any = operator.acl_log(100)
        operator.acl_log_reset()
    return {(entry["username"], entry["object"]) for entry in log} - {
        (role, what) for role in ROLES for what in DONE_WITHOUT
    }
