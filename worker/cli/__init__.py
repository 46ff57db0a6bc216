"""The command line ``perdure``. Slow modules are imported only by the commands that need them."""
