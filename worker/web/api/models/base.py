"""What bodies have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from flows.definition import known


class Answer(BaseModel):
    """Something that comes back: these fields and no others, all of them."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Known(BaseModel):
    """Something that is sent: fields that are not known are refused, naming the nearest one that is."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, given: Any) -> Any:
        unknown = [name for name in given if name not in cls.model_fields] if isinstance(given, Mapping) else []
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r:.100}; {known(unknown[0], cls.model_fields)}")
        return given


class Asked(Known):
    """A body: its values are taken as they are, a text is no number."""

    model_config = ConfigDict(strict=True)
