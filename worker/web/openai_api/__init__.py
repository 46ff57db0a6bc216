"""OpenAI's API under ``/v1``, for flows that are exposed to it.

It has responses, chat completions and models. A flow is a model. A run is a response, and the run's
id is the response's id. All state is in the runs, so any server process can serve the next request
of a client.
"""

from __future__ import annotations

from perdure.worker.web.openai_api.routes import openai_router

__all__ = ["openai_router"]
