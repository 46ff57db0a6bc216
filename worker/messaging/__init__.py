"""Round messages: their format, validation, publishers, and the brokers that carry them.

``transports/`` has the kombu transports that validate received messages. ``fast/`` has
optimizations of the plain path.
"""
