"""Signals that end a command: each raises KeyboardInterrupt, and none is lost.

Python prints an exception from a finalizer, but does not propagate it. Until 3.11, Python also
replaces an exception from ``__set_name__`` (while a class is made) by RuntimeError. A Ctrl-C in
such a function would be lost, or reported as an internal error. So the signal is sent again until
no such function runs.
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
    """Make the signals with these numbers raise KeyboardInterrupt in the main thread.

    A signal that this process ignores stays ignored.
    """
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
