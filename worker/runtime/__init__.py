"""The parts of a worker process inside Celery: built once per process, added to a Celery app."""
