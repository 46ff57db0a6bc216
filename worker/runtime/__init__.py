"""The parts of a worker process inside Celery: assembled once per process, installed on an app."""
