"""Load: processes of normal priority that keep every core busy while tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Busy processes for each core. With one, a process of a test gets about half of a core.
PER_CORE = 1
#: It ends by itself if the tool is killed.
BUSY = "import os\ntool = os.getppid()\nwhile os.getppid() == tool:\n    sum(range(100_000))"


class Load:
    """Processes that compute, and the seconds of CPU time that they had in the end."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self.processes = processes
        self.cpu_seconds = 0.0


@contextmanager
def keep_busy() -> Iterator[Load]:
    """Keep all cores busy until the block ends."""
    count = PER_CORE * (os.cpu_count() or 1)
    # Without `site`, so that they neither pause nor wait for each other.
    command = [sys.executable, "-I", "-S", "-c", BUSY]
    load = Load([subprocess.Popen(command) for _ in range(count)])
    try:
        yield load
    finally:
        for process in load.processes:
            process.kill()
        for process in load.processes:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            load.cpu_seconds += usage.ru_utime + usage.ru_stime
