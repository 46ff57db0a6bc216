"""``python -m tests.reference``: write ``docs/reference/``. ``--gaps`` lists its gaps."""

from __future__ import annotations

import sys

from tests.reference import cli, http, python_api, settings
from tests.reference.site import DIRECTORY, outdated, write


def main() -> int:
    """Write the pages, or list what has no description; return the exit code."""
    if sys.argv[1:] == ["--gaps"]:
        for what in (python_api, cli, http, settings):
            for gap in what.gaps():
                print(f"{what.__name__.rpartition('.')[2]}: {gap}")
        for field in (*python_api.undescribed_fields(), *http.undescribed_fields()):
            print(f"field: {field}")
        return 0
    if sys.argv[1:]:
        print("usage: python -m tests.reference [--gaps]", file=sys.stderr)
        return 2
    changed = outdated()
    write()
    print(f"{len(changed)} pages of {DIRECTORY.name}/ were outdated and are written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
