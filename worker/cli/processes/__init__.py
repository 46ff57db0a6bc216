"""The processes that commands start and supervise."""
