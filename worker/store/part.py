"""The base of the parts of a Store."""

from __future__ import annotations

from perdure.worker.store.connection import StoreConnection


class StorePart:
    """Operations on one subject, over a store's connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._store = connection
        self.keys = connection.keys
