"""``python -m tests.reference``: write ``docs/reference/`` and the type stub of ``perdure``.

``--check`` only lists what differs from the code, with exit code 1 if there is any. ``--gaps`` lists
public names and options without a description.
"""

from __future__ import annotations

import sys

from tests.reference import cli, http, python_api, settings, type_stub
from tests.reference.site import DIRECTORY, outdated, write

USAGE = "usage: python -m tests.reference [--check | --gaps]"


def main() -> int:
    """Write the pages, or list what is outdated or not described; return the exit code."""
    match sys.argv[1:]:
        case []:
            return write_all()
        case ["--check"]:
            return check()
        case ["--gaps"]:
            return list_gaps()
    print(USAGE, file=sys.stderr)
    return 2


def write_all() -> int:
    """Write the pages and the stub."""
    changed = outdated()
    write()
    type_stub.PATH.write_text(type_stub.text())
    print(f"{len(changed)} pages of {DIRECTORY.name}/ were outdated and are written anew")
    return 0


def check() -> int:
    """List what differs from the code; return the exit code."""
    differing = [f"{DIRECTORY.name}/{page}" for page in outdated()]
    if type_stub.PATH.read_text() != type_stub.text():
        differing.append(type_stub.PATH.name)
    if not differing:
        return 0
    print(f"differs from the code: {', '.join(differing)}; run `make reference` and commit it")
    return 1


def list_gaps() -> int:
    """List what has no description."""
    for what in (python_api, cli, http, settings):
        for gap in what.gaps():
            print(f"{what.__name__.rpartition('.')[2]}: {gap}")
    for field in (*python_api.undescribed_fields(), *http.undescribed_fields()):
        print(f"field: {field}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
