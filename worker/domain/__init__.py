"""What a run is, and every rule about it that needs no I/O.

It is pure: it imports neither clock, store nor Celery.
"""
