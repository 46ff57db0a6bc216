"""``python -m tests.golden [NAME...]``: rewrite the golden files, all of them or those named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden.golden_files import REWRITE

HERE = Path(__file__).parent


def main() -> int:
    """Run the golden tests in the mode that writes; return pytest's exit code."""
    paths = [HERE / f"test_{name}.py" for name in sys.argv[1:]] or [HERE]
    unknown = [path.name for path in paths if not path.exists()]
    if unknown:
        names = ", ".join(
            sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py"))
        )
        print(f"no such golden test: {', '.join(unknown)}; there are: {names}", file=sys.stderr)
        return 2
    os.environ[REWRITE] = "1"
    return pytest.main([*map(str, paths), "--quiet"])


if __name__ == "__main__":
    sys.exit(main())
