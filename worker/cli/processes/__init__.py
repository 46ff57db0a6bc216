"""The processes that CLI commands start and supervise."""
