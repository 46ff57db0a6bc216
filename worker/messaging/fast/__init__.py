"""Optimizations of building and validating messages.

Without them Celery builds each message (``publisher``) and each is parsed (``message``).
"""
