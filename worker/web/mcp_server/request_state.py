"""Keys in the state of an MCP request.

With them, the MCP server passes facts to its HTTP route.
"""

#: Key in the ASGI scope's ``state`` of the HTTP status with which a request was refused.
REFUSED_KEY = "perdure_refused"
