"""The commands that ship with Perdure. Flows in YAML use them by name."""

from perdure.flows.executors.files import (
    list_files,
    read_artifact,
    read_file,
    search_files,
    write_file,
)
from perdure.flows.executors.http import http_get
from perdure.flows.executors.shell import run_shell

__all__ = [
    "http_get",
    "list_files",
    "read_artifact",
    "read_file",
    "run_shell",
    "search_files",
    "write_file",
]
