"""Whether another package stands in our place on the path."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

#: The folder that holds ``worker`` and ``flows``.
HOME = Path(__file__).resolve().parents[2]


def shadowed() -> str | None:
    """A sentence where another package of the name ``flows`` is found first; the same for ``worker`` is in ``holdfast``."""
    found = find_spec("flows")
    place = Path(found.origin).resolve().parent if found is not None and found.origin else None
    if place == HOME / "flows":
        return None
    return (
        f"another package named 'flows' comes first on the path, at {place or 'a folder without __init__.py'}; Holdfast's is at "
        f"{HOME / 'flows'}. Take the other one's folder out of PYTHONPATH, or install Holdfast into an environment of its own"
    )
