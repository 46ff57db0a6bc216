"""Keys in a request's state, by which the MCP server passes facts to its route."""

#: Key in the ASGI scope's ``state`` of the HTTP status with which a request was refused.
REFUSED_KEY = "perdure_refused"
