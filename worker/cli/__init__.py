"""The command line ``perdure``. Nothing slow is imported before a command runs."""
