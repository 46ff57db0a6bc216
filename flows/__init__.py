"""Flows, the definitions of what a run does in its rounds.

This package knows nothing of servers, queues and workers. ``perdure`` is its public face.
"""
