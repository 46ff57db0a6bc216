"""Round messages: their format, validation, publishers, and the brokers that carry them.

``transports/`` has the kombu transports that validate what a worker receives. ``fast/`` has
optimizations of the plain path.
"""
