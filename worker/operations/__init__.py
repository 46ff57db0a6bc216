"""The operations of every client, each declared once: a function, its HTTP request and scope.

``Client``, ``RemoteClient``, ``AsyncClient`` and the client of a caller over HTTP derive their
methods from these functions. Clients, routes and commands import this package. It imports no
client.
"""
