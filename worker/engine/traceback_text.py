"""The text of a failed round's traceback.

It shows the frames of the flow's own code, and one line for each group of other frames. It has a
maximum length, and contains no secrets.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from perdure import flows
from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.core.secrets import HIDDEN, known_secrets, scrubbed, secrets_in
from perdure.worker.settings import Settings

#: Maximum bytes of a traceback. It goes into the run's hash and into events.
MOST_BYTES = 8 * 1024
#: Maximum number of own frames shown, from both ends: a recursion has a thousand.
OWN_FRAMES = 30
#: Maximum characters of the last line, which holds the exception's message.
MESSAGE = 2000
#: Maximum number of exceptions of a chain (``raise ... from ...``) shown.
CHAIN = 3
#: Matches the password of a URL.
_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s@]+@")


def traceback_of(error: BaseException, settings: Settings) -> str:
    """Return a failed round's traceback.

    It is shortened, and contains no secrets.

    Returns:
        Empty if the error is a FatalError or RetryableError without a cause and without frames of
        the flow's code, so that its message is enough. Also empty if Python cannot format the
        exception.
    """
    try:
        whole = traceback.TracebackException.from_exception(error, capture_locals=False)
    except Exception:  # The class of the exception is the user's.
        return ""
    chain = list(_chain(whole))
    if (
        isinstance(error, FatalError | RetryableError)
        and len(chain) == 1
        and not any(map(_is_own, chain[0].stack))
    ):
        return ""
    parts = [part for each in chain for part in ("caused by:", *_lines_of(each))][1:]
    return _bounded(without_secrets("\n".join(parts), settings))


def without_secrets(text: str, settings: Settings) -> str:
    """Replace this process's secrets in a text.

    They are passwords in URLs, and secrets in environment variables.
    """
    urls = [settings.redis_url, settings.broker_url]
    secrets = [
        secret
        for several in urls
        for url in (several or "").split(";")
        for secret in secrets_in(url)
    ]
    return _PASSWORD.sub(rf"\1:{HIDDEN}@", scrubbed(text, [*secrets, *known_secrets()]))


def _chain(exception: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an exception and its causes.

    There are at most ``CHAIN`` exceptions in all.
    """
    each: traceback.TracebackException | None = exception
    for _ in range(CHAIN):
        if each is None:
            return
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _lines_of(exception: traceback.TracebackException) -> Iterator[str]:
    last = "".join(exception.format_exception_only()).rstrip("\n")
    yield last if len(last) <= MESSAGE else f"{last[:MESSAGE]} ... ({len(last)} characters)"
    runs = [(own, list(frames)) for own, frames in groupby(exception.stack, _is_own)]
    # How Perdure called the flow is of no interest, unless no other frame is there.
    if runs and not runs[0][0]:
        runs = runs[1:] or runs
    for own, frames in runs:
        yield from _own(frames) if own else [_folded(frames)]


def _own(frames: Sequence[traceback.FrameSummary]) -> Iterator[str]:
    shown = list(frames)
    for number, frame in enumerate(shown):
        if len(shown) > OWN_FRAMES and OWN_FRAMES // 3 <= number < len(shown) - 2 * OWN_FRAMES // 3:
            if number == OWN_FRAMES // 3:
                yield f"  ... {len(shown) - OWN_FRAMES} more frames"
            continue
        yield f'  File "{_short_path(frame)}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {frame.line[:200]}"


def _folded(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return one line for several frames of Perdure, Python or libraries.

    It has the number of frames, and the last of them.
    """
    last = frames[-1]
    return (
        f"  ({len(frames)} of Perdure, Python and libraries, "
        f"last {_short_path(last)}:{last.lineno} in {last.name})"
    )


def _is_own(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame of a traceback is in the code of a flow.

    If not, it is in Perdure, Python or a library.
    """
    path = frame.filename
    if path.startswith("<"):
        return False
    if path.startswith(_shipped()):
        return True
    return (
        not path.startswith(_others())
        and "site-packages" not in path
        and "dist-packages" not in path
    )


@cache
def _shipped() -> str:
    """Return the folder of the flows that come with Perdure.

    A traceback shows their frames like those of a user's flow.
    """
    return f"{Path(flows.__file__).parent / 'library'}/"


@cache
def _others() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    packages = [Path(flows.__file__).parent, Path(__file__).parent.parent]
    return tuple(
        f"{path}/" for path in [*packages, *filter(None, map(sysconfig.get_paths().get, names))]
    )


def _short_path(frame: traceback.FrameSummary) -> str:
    """Return the path of a frame's file without the directories of this machine.

    It begins below the working directory, Perdure's directory or ``site-packages``. Any other path
    is shortened to its last two parts.
    """
    path = Path(frame.filename)
    for root in (Path.cwd(), Path(flows.__file__).parent.parent):
        if path.is_relative_to(root) and "site-packages" not in path.parts:
            return str(path.relative_to(root))
    parts = path.parts
    for name in ("site-packages", "dist-packages"):
        if name in parts:
            return "/".join(parts[parts.index(name) + 1 :])
    return "/".join(parts[-2:])


def _bounded(text: str) -> str:
    """Return a traceback with at most ``MOST_BYTES`` bytes.

    The middle of a longer text is cut out. The result is valid Unicode.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        half = (MOST_BYTES - 40) // 2
        data = data[:half] + b"\n  ...\n" + data[-half:]
    return data.decode("utf-8", "ignore")
