"""Signals that end a command: each raises KeyboardInterrupt, and none is lost.

Python only prints an exception from a finalizer, and drops it. Until 3.11 it replaces an exception
from ``__set_name__``, while a class is made, by RuntimeError. A Ctrl-C at that moment would be
lost, or reported as an internal error. So KeyboardInterrupt is raised right after these functions.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

#: Seconds after which a signal that came in a finalizer or ``__set_name__`` is sent again.
AGAIN = 0.01
#: Names of methods in which Python drops or replaces a KeyboardInterrupt.
CLOSED = ("__del__", "__set_name__")
#: Modules whose functions are finalizers.
OF_FINALIZERS = ("weakref", "_weakrefset")


def raise_on(*numbers: int) -> None:
    """Make signals raise KeyboardInterrupt in the main thread. Ignored signals stay ignored."""
    for number in numbers:
        # A shell has background jobs ignore Ctrl-C.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if any(map(_is_closed, _callers(frame))):
        again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        raise KeyboardInterrupt


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_closed(frame: FrameType) -> bool:
    is_finalizer = frame.f_globals.get("__name__") in OF_FINALIZERS
    return is_finalizer or frame.f_code.co_name in CLOSED
