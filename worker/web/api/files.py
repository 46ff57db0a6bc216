"""Routes of a run's files: files submitted with the run, and files that its rounds attached."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Response

from perdure.flows.core.files import PICTURES, File
from perdure.worker.web.api.requests import ResponseBody
from perdure.worker.web.api.routes import RunId, problems, resource_router
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json

router = resource_router("runs")

#: The content of a file comes from users and models. Even if a browser opens it as a page of its
#: own, it can run nothing, load nothing, and be embedded nowhere.
POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"

FileName = Annotated[str, Path(description="The file's name in its run.", examples=["picture.png"])]


class ListedFile(ResponseBody):
    """A file of a run."""

    file: str
    """Its name in the run."""
    media_type: str
    bytes: int


class FileResponse(Response):
    """A response with the bytes of a file.

    Browsers show pictures whose types cannot contain code. They offer to save all other files.
    """

    media_type = "application/octet-stream"

    def __init__(self, file: File, status_code: int = 200) -> None:
        shown = "inline" if file.media_type in PICTURES else "attachment"
        headers = {
            "Content-Type": file.media_type,
            "Content-Disposition": f"{shown}; filename*=UTF-8''{quote(file.name, safe='')}",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
        }
        super().__init__(file.content, status_code, headers)


@router.get(
    "/runs/{run_id}/files",
    operation_id="list_files",
    response_model=list[ListedFile],
    responses=problems("run-not-found", "damaged-run"),
)
def list_files(run_id: RunId, runs: Runs) -> Response:
    """List the files that were submitted with a run, and those that its rounds have attached."""
    return Json(
        [
            {"file": each.name, "media_type": each.media_type, "bytes": each.bytes}
            for each in runs.files(run_id)
        ]
    )


@router.get(
    "/runs/{run_id}/files/{name:rest}",
    operation_id="get_file",
    response_class=FileResponse,
    response_description="The bytes, with the media type of the file.",
    responses=problems("run-not-found", "artifact-not-found", "damaged-run"),
)
def get_file(run_id: RunId, name: FileName, runs: Runs) -> Response:
    """Return a file of a run, unchanged.

    Browsers show PNG, JPEG, GIF and WebP pictures, and offer to save all other files. A file of a
    child run has the name `RUN/NAME`.
    """
    return FileResponse(runs.file(run_id, name))
