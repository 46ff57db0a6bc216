"""Connections of a store in a forked process: the test forks, so it stands here."""

from __future__ import annotations

import subprocess
import sys

from tests.support.redis_servers import CrashableServer

FORKS = """
import os, sys
from perdure.worker.store import Store
from perdure.worker.store.wire import packed

store = Store(sys.argv[1])
asked = lambda: store._wire.ask(packed(("CLIENT", "ID")))
mine = asked()
child = os.fork()
if not child:
    os._exit(asked() == mine)
assert os.waitpid(child, 0)[1] == 0, "the child used its parent's connection"
assert asked() == mine, "the child closed its parent's connection"
"""


def test_a_child_uses_connections_of_its_own_and_leaves_its_parents_alone(
    any_server: CrashableServer,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, any_server.url], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
