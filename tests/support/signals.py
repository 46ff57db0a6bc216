"""Signals that a background job or `nohup` ignores: processes of tests handle them by default."""

from __future__ import annotations

import signal
import threading


def restore_defaults() -> None:
    """Make the processes that tests start handle SIGINT and SIGHUP as in a terminal.

    A background job of a script ignores SIGINT, and `nohup` ignores SIGHUP. A process inherits an
    ignored signal, but not a handler. So this process gets handlers. The one of SIGHUP does
    nothing, because `nohup` is there to keep this process alive.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
