"""Flows, the definitions of a run's rounds.

This package knows nothing of servers, queues and workers. ``perdure`` is its public face.
"""
