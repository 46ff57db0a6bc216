"""Facts in a request's state, from the MCP server for the route."""

#: Key in scope["state"] of the HTTP status with which a request was refused.
REFUSED_KEY = "perdure_refused"
