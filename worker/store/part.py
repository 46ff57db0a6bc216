"""The base of the parts of which a Store is composed."""

from __future__ import annotations

from perdure.worker.store.connection import StoreConnection


class StorePart:
    """Operations on one subject, over the connection of a store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._store = connection
        self.keys = connection.keys
