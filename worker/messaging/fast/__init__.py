"""Optimizations for building and validating messages.

Without them, Celery builds each message (``publisher``), and each message is parsed (``message``).
"""
