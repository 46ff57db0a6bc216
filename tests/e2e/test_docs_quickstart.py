"""docs/quickstart.md: every command is run as printed, by real processes, and prints the shown
output.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.docs_console_blocks import console

#: Installing needs a package index; the environment of the tests has Perdure already.
INSTALLS = re.compile(r"python3? -m venv|\. \.venv|pip install|git clone|cd ")


@pytest.mark.timeout(300)
def test_the_quickstart_does_what_it_says(tmp_path: Path) -> None:
    with console(tmp_path, waits={"perdure workers": 2, "perdure list": 1}) as reader:
        done = reader.play(Path("quickstart.md"), skip=INSTALLS)
    assert len(done) >= 10 and "kill -9" in " ".join(done)
