"""Round messages: their format, their validation, publishers, and brokers.

``transports/`` has the kombu transports that validate received messages. ``fast/`` has
optimizations of the plain path.
"""
