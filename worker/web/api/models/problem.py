"""Problem: what an error looks like."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class HoldfastProblem(BaseModel):
    """An error, as problem details (RFC 9457). The name says whose: an app that the router is mounted in may have problems of its own."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = Field(examples=["urn:holdfast:run-not-found"])
    """What kind of error it is, for programs."""
    title: str
    """The same for people."""
    status: int = Field(ge=400, le=599)
    """The status of the response."""
    detail: str
    """What was expected, what came, and what to do."""
    run: str = ""
    """The run that it is about, where the path names one."""
    faults: list[dict[str, str]] = Field(default_factory=list)
    """Of a request that is not as described, what is wrong (`problem`) and where (`at`)."""
