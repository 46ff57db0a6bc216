"""Facts from the MCP server for the route of a request.

They are in the request's state.
"""

#: Key in scope["state"] of the HTTP status with which a request was refused.
REFUSED_KEY = "perdure_refused"
