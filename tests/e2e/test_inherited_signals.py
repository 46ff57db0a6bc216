"""Processes of tests handle signals by default, also if the suite is a background job or under
`nohup`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: It starts a process, since ignored signals are inherited when a program is started.
TEST = '''
import subprocess, sys

HANDLERS = """
import signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "SIGINT"
assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL, "SIGHUP"
"""

def test_handlers():
    subprocess.run([sys.executable, "-c", HANDLERS], check=True)
'''
#: The command of `sh` for a background job, and of `nohup`.
IGNORED = "trap '' INT HUP; exec \"$@\""


def test_a_process_of_a_test_inherits_no_ignored_signal(tmp_path: Path) -> None:
    file = tmp_path / "test_handlers.py"
    file.write_text(TEST)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    done = subprocess.run(
        ["/bin/sh", "-c", IGNORED, "sh", *pytest, "tests.conftest", str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # they cost 2.5 s of CPU
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
