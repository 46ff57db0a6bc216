"""The settings of notes."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class NoteSettings(BaseSettings):
    """The limits of the number and the size of notes."""

    model_config = SettingsConfigDict(defer_build=True)

    #: Notes of one namespace (the oldest make room for new ones), and bytes of one note.
    max_notes: int = Field(default=1000, ge=1)
    max_note_bytes: int = Field(default=4096, ge=100)
