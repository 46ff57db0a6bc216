"""Executors: commands that ship, by name for flows written in YAML."""

from flows.executors.artifacts import read_artifact
from flows.executors.files import list_files, read_file, search_files, write_file
from flows.executors.http import http_get
from flows.executors.shell import run_shell

__all__ = ["http_get", "list_files", "read_artifact", "read_file", "run_shell", "search_files", "write_file"]
