"""FeatureSettings: the settings of all features. The settings of each feature are a base class."""

from __future__ import annotations

from perdure.worker.features.notes.settings import NoteSettings
from perdure.worker.features.notifications.rules import NotificationSettings


class FeatureSettings(
    NoteSettings,
    NotificationSettings,
):
    """The settings that features add to ``Settings``."""
