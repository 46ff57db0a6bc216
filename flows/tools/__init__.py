"""The commands that ship with the project. Flows written in YAML use them by name."""

from perdure.flows.tools.files import (
    list_files,
    read_artifact,
    read_file,
    search_files,
    write_file,
)
from perdure.flows.tools.http import http_get
from perdure.flows.tools.shell import run_shell

__all__ = [
    "http_get",
    "list_files",
    "read_artifact",
    "read_file",
    "run_shell",
    "search_files",
    "write_file",
]
