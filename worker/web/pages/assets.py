"""Static files: found by name, addressed with a digest of their content, so that a browser keeps each until it changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

DIRECTORY = Path(__file__).parent.parent / "static"
#: Seconds that a file addressed by its digest may be kept: a year, as long as anybody keeps anything.
KEPT = 31_536_000


def _digests() -> dict[str, str]:
    files = (path for path in sorted(DIRECTORY.rglob("*")) if path.is_file())
    return {path.relative_to(DIRECTORY).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in files}


#: Each file's name, and the digest that its address carries.
ASSETS = _digests()


class Assets(StaticFiles):
    """The files of the dashboard."""

    def __init__(self) -> None:
        super().__init__(directory=DIRECTORY)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """With word on how long it may be kept: for ever if it was asked for by its digest, else looked at again each time."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        digest = ASSETS.get(Path(full_path).relative_to(DIRECTORY).as_posix())
        asked = scope.get("query_string", b"").decode("latin-1")
        response.headers["Cache-Control"] = f"public, max-age={KEPT}, immutable" if digest and asked == f"v={digest}" else "no-cache"
        return response
