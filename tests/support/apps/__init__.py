"""Celery apps and worker set-ups for tests: Perdure's own in unusual shape, and other people's."""
