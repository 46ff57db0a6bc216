"""The operations of every client, each declared once: its function and its facts.

``Client``, ``RemoteClient``, ``AsyncClient`` and the client of a caller over HTTP derive their
methods from these functions. Clients, routes and commands import this package. It imports no
client.
"""
