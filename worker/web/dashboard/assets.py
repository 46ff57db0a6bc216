"""Static files of the dashboard.

Each file's URL has a digest of its content. So a browser can cache the file until it changes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

DIRECTORY = Path(__file__).resolve().parent.parent / "static"
#: Seconds that browsers may cache a file with a digest in its address: a year, the usual maximum.
CACHE_SECONDS = 31_536_000


def _digests() -> dict[str, str]:
    files = (path for path in sorted(DIRECTORY.rglob("*")) if path.is_file())
    return {
        path.relative_to(DIRECTORY).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        for path in files
    }


#: Digest of each file by its name, for the file's address.
ASSETS = _digests()


class Assets(StaticFiles):
    """The static files, with their Cache-Control headers."""

    def __init__(self) -> None:
        super().__init__(directory=DIRECTORY)

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Return a static file with a Cache-Control header.

        If the URL of the request has the file's current digest, browsers may cache the response for
        CACHE_SECONDS. Otherwise browsers validate the cached file at each use.
        """
        response = super().file_response(full_path, stat_result, scope, status_code)
        digest = ASSETS.get(Path(full_path).relative_to(DIRECTORY).as_posix())
        query = scope.get("query_string", b"").decode("latin-1")
        response.headers["Cache-Control"] = (
            f"public, max-age={CACHE_SECONDS}, immutable"
            if digest and query == f"v={digest}"
            else "no-cache"
        )
        return response
