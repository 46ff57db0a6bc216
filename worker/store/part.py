"""The base class of the parts of a Store."""

from __future__ import annotations

from perdure.worker.store.connection import StoreConnection


class StorePart:
    """The operations of a store on one subject. They use the store's connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._store = connection
        self.keys = connection.keys
