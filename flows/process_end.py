"""Process end: which exceptions are the end of a process, and which are a failure of the round that they came from."""

from __future__ import annotations

import signal
import threading

#: With this the process of a pool leaves its round when SIGTERM reaches it (billiard.common: 256 less the signal).
TOLD_TO_END = signal.SIGTERM - 256


class ProcessEnd(BaseException):
    """The process that plays the round is no more, in a test that plays its death: nothing may catch this and go on."""


def ends_process(error: BaseException) -> bool:
    """Return whether ``error`` ends the process: Celery's ways of ending a worker or a child of its pool, or a Ctrl-C.

    Celery raises them in the main thread alone. In any other thread they end nothing, and would only keep the round's place in the pool.
    ``sys.exit`` and ``raise KeyboardInterrupt`` in a flow's code end no process.
    """
    if isinstance(error, ProcessEnd):
        return True
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a worker hears Ctrl-C with a handler of its own
    return isinstance(error, SystemExit) and (type(error) is not SystemExit or error.code == TOLD_TO_END)
