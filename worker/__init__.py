"""The runtime: everything that makes the rounds of flows durable on Celery and Redis.

Users import from ``perdure``.
"""
