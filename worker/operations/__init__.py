"""The operations of every client.

Each operation is declared once, as a function with its HTTP request and its scope. ``Client``,
``RemoteClient``, ``AsyncClient`` and ``AuthorizedClient`` (the client of a caller over HTTP) derive
their methods from these functions. Clients, routes and commands import this package. The package
imports no client.
"""
