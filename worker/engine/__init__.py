"""The engine: claims rounds, runs them, commits them, and requeues overdue runs."""
