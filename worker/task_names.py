"""The names of the Celery tasks: what a message says first, and a run's hash keeps."""

from __future__ import annotations

#: Celery's name of the task that plays a node, by the node's role.
TASKS = {"controller": "holdfast.controller_round", "executor": "holdfast.executor_round"}

#: Celery's name of the task that submits a run, on an app of somebody's own.
SUBMIT = "holdfast.submit"
