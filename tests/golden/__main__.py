"""``python -m tests.golden [NAME...]``: rewrite the golden files, all of them or those named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden.golden_files import REWRITE

HERE = Path(__file__).parent
#: Folders with golden tests: those that start a process stand in the second.
HOMES = (HERE, HERE.parent / "e2e" / "golden")


def main() -> int:
    """Run the golden tests in the mode that writes; return pytest's exit code."""
    known = {
        path.stem.removeprefix("test_"): path for home in HOMES for path in home.glob("test_*.py")
    }
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        names = ", ".join(sorted(known))
        print(f"no such golden test: {', '.join(unknown)}; there are: {names}", file=sys.stderr)
        return 2
    os.environ[REWRITE] = "1"
    paths = [known[name] for name in sys.argv[1:]] or list(HOMES)
    return pytest.main([*map(str, paths), "--quiet"])


if __name__ == "__main__":
    sys.exit(main())
