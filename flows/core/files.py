"""Files that a run receives, shows and returns.

A file is bytes with a name and a media type. The history, the state and the answer hold a small
reference to the file. The bytes are artifacts of the run.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any

from perdure.flows.core.errors import InvalidInput

#: Maximum bytes of one file. Model providers take pictures of 5 to 20 MB.
MOST_BYTES = 8 * 1024 * 1024
#: Maximum bytes and number of the files of one submission, and of the files that one round
#: attaches. The state server writes them in one step, and answers nothing else meanwhile.
MOST_TOGETHER, MOST_FILES = 16 * 1024 * 1024, 20
#: Maximum characters of a file's name.
MOST_OF_A_NAME = 120
#: Beginnings of the names of the artifacts with a file's bytes and with its media type.
BYTES, TYPE = "files/", "file-types/"

#: Not in a name: separators, characters that HTML and headers quote, and characters that hide or
#: turn text.
NAME = re.compile(
    r'[^/\\"<>\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]+'
)
MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,90}")
#: How files of these types begin. Providers refuse a whole request for a file that does not.
SIGNATURES: Mapping[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb"%PDF-"),
}
#: Pictures that models read and browsers may show on a page.
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
#: Python's own table of media types. The system's table would make the type depend on the machine.
_types = MimeTypes(filenames=())
for _suffix, _type in {
    ".webp": "image/webp",
    ".md": "text/markdown",
    ".log": "text/plain",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "application/jsonl",
}.items():
    _types.add_type(_type, _suffix)


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file in a run's history, state or answer, without its bytes.

    As JSON data it is ``{"file": name, "media_type": ..., "bytes": ..., "digest": ...}``.

    Attributes:
        name: the file's name in its run. ``RUN/NAME`` for the file of a child run.
        media_type: ``image/png``, for example.
        bytes: the size of the file.
        digest: the first 16 hexadecimal digits of the file's SHA-256. Empty from ``Client.files``.
    """

    name: str
    media_type: str
    bytes: int
    digest: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The reference as JSON data."""
        return {
            "file": self.name,
            "media_type": self.media_type,
            "bytes": self.bytes,
            "digest": self.digest,
        }

    @classmethod
    def of(cls, data: Any) -> FileReference | None:
        """Return the reference in JSON data. None if the data is something else."""
        match data:
            case {
                "file": str(name),
                "media_type": str(media_type),
                "bytes": int(size),
                "digest": str(digest),
            } if len(data) == 4:
                return cls(name, media_type, size, digest)
        return None


@dataclass(frozen=True)
class File:
    """A file: bytes with a name and a media type.

    Args:
        name: its name without folders, at most 120 characters.
        content: its bytes, at most 8 MiB and not empty.
        media_type: ``image/png``, for example. Left out, it follows from the content or the name.

    Raises:
        InvalidInput: An argument is not valid, the media type is unknown, or the content is of
            another type.
    """

    name: str
    content: bytes = field(repr=False)
    media_type: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not is_file_name(self.name):
            raise InvalidInput(
                f"a file's name: expected at most {MOST_OF_A_NAME} characters without "
                f'/ \\ " < > and control characters, got {self.name!r:.200}'
            )
        if not isinstance(self.content, bytes):
            raise InvalidInput(
                f"file {self.name!r}: expected its content as bytes, "
                f"got {type(self.content).__name__}"
            )
        if not self.content:
            raise InvalidInput(f"file {self.name!r} is empty; a run takes files with content")
        if len(self.content) > MOST_BYTES:
            raise InvalidInput(
                f"file {self.name!r} has {len(self.content):,} bytes; the limit is "
                f"{MOST_BYTES:,}. Put large data where the commands of the run can read it, and "
                "pass its address as an input"
            )
        object.__setattr__(self, "media_type", self._checked_type())

    @classmethod
    def read(cls, path: str | os.PathLike[str], media_type: str = "") -> File:
        """Return the file at a path.

        Raises:
            InvalidInput: The file cannot be read, or is not valid as a file of a run.
        """
        place = Path(path)
        try:
            with place.open("rb") as opened:
                content = opened.read(MOST_BYTES + 1)
                size = os.fstat(opened.fileno()).st_size
        except OSError as error:
            raise InvalidInput(f"file {str(path)!r} cannot be read: {error.strerror}") from error
        if len(content) > MOST_BYTES:
            raise InvalidInput(
                f"file {str(path)!r} has {size:,} bytes; the limit is {MOST_BYTES:,}"
            )
        return cls(place.name, content, media_type)

    @property
    def text(self) -> str:
        """The content as text.

        Raises:
            UnicodeDecodeError: The content is not UTF-8.
        """
        return self.content.decode("utf-8")

    @property
    def reference(self) -> FileReference:
        """The stored reference to the file, without its bytes."""
        digest = hashlib.sha256(self.content).hexdigest()[:16]
        return FileReference(self.name, self.media_type, len(self.content), digest)

    def _checked_type(self) -> str:
        """Return the validated media type. If it is empty, guess it from the content or the name.

        Raises:
            InvalidInput: the media type is not valid, cannot be guessed, or contradicts the
                content.
        """
        wanted = self.media_type
        if wanted and (not isinstance(wanted, str) or not MEDIA_TYPE.fullmatch(wanted)):
            raise InvalidInput(
                f"file {self.name!r}: expected a media type such as image/png, in lower case and "
                f"without parameters, got {wanted!r:.200}"
            )
        if not wanted:
            begins = (kind for kind, begin in SIGNATURES.items() if begin.match(self.content))
            wanted = next(begins, None) or _types.guess_type(self.name)[0] or ""
        if not wanted:
            raise InvalidInput(
                f"file {self.name!r} has an unknown media type: its name ends in none that is "
                "known. Pass it: File(name, content, 'application/octet-stream')"
            )
        begin = SIGNATURES.get(wanted)
        if begin is not None and not begin.match(self.content):
            raise InvalidInput(
                f"file {self.name!r} is no {wanted}: it begins with {self.content[:8]!r}. "
                "Pass the media type that it has"
            )
        return wanted


def is_file_name(name: str) -> bool:
    """Return whether a run's file may have this name."""
    return (
        len(name) <= MOST_OF_A_NAME
        and NAME.fullmatch(name) is not None
        and name == name.strip()
        and name not in (".", "..")
    )


def files_of(files: Sequence[Any] | None) -> tuple[File, ...]:
    """Return the files of a submission. A path in the list is read.

    Args:
        files: ``File`` objects and paths. None for no files.

    Raises:
        InvalidInput: ``files`` is not a list, a file is not valid, two have the same name, or they
            are too many or too large together.
    """
    if files is None:
        return ()
    if isinstance(files, str | bytes | os.PathLike | File) or not isinstance(files, Sequence):
        raise InvalidInput(
            f"files: expected a list of perdure.File or paths, got {type(files).__name__}"
        )
    read: list[File] = []
    for each in files:
        if not isinstance(each, File | str | os.PathLike):
            raise InvalidInput(f"files: expected perdure.File or a path, got {type(each).__name__}")
        read.append(each if isinstance(each, File) else File.read(each))
        check_together(read)
    names = [each.name for each in read]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"files: two are named {name!r}; give each its own name")
    return tuple(read)


def check_together(files: Sequence[File]) -> None:
    """Raise InvalidInput if files that are stored together are too many or too large.

    The limits are ``MOST_FILES`` files and ``MOST_TOGETHER`` bytes.
    """
    size = sum(len(each.content) for each in files)
    if size > MOST_TOGETHER or len(files) > MOST_FILES:
        raise InvalidInput(
            f"files: {len(files)} with {size:,} bytes together; the limit is {MOST_FILES} with "
            f"{MOST_TOGETHER:,} bytes"
        )


def numbered(step: int, number: int, name: str) -> str:
    """Return an attached file's name in its run.

    It is ``STEP-NAME``, or ``STEP-NUMBER-NAME`` if ``number`` is above 1. A name that becomes too
    long is cut before its suffix.

    Args:
        number: 1 for the first file of this name in the step, 2 for the second, and so on.
    """
    beginning = f"{step}-" if number == 1 else f"{step}-{number}-"
    room = MOST_OF_A_NAME - len(beginning)
    stem, dot, suffix = name.rpartition(".")
    if len(name) > room and len(suffix) < 20:
        name = f"{stem[: room - len(dot + suffix)]}{dot}{suffix}"
    return f"{beginning}{name[:room]}"


def artifacts_of(name: str, file: File) -> dict[str, str]:
    """Return the artifacts, by name, that store a file: its bytes and its media type.

    Bytes that are not UTF-8 become surrogate escapes, as in all stored data.

    Args:
        name: the file's name in its run.
    """
    content = file.content.decode("utf-8", "surrogateescape")
    return {BYTES + name: content, TYPE + name: file.media_type}


def artifact_name(prefix: str, name: str) -> str:
    """Return the name of the artifact that stores a file's bytes or media type.

    Args:
        prefix: ``BYTES`` or ``TYPE``.
        name: the file's name in its run. ``RUN/NAME`` for the file of a child run.
    """
    run, slash, own = name.rpartition("/")
    return f"{run}{slash}{prefix}{own}"


def is_of_file(name: str, prefixes: tuple[str, ...] = (BYTES, TYPE)) -> bool:
    """Return whether an artifact of this name stores a file's bytes or media type.

    The name may have a child run's id and ``/`` in front.

    Args:
        prefixes: ``BYTES``, ``TYPE``, or both.
    """
    return name.startswith(prefixes) or name.partition("/")[2].startswith(prefixes)


def stored_file(name: str, content: bytes, media_type: str) -> File:
    """Return a stored file of a run. The values are not validated again.

    Args:
        name: the file's name in its run. The id of a child run in front (``RUN/``) is dropped.
    """
    file = object.__new__(File)
    fields = {"name": name.rpartition("/")[2], "content": content, "media_type": media_type}
    for field_name, value in fields.items():
        object.__setattr__(file, field_name, value)
    return file


def file_of(name: str, content: str, media_type: str) -> File:
    """Return a file from the artifacts of ``artifacts_of``.

    Args:
        name: the file's name in its run. ``RUN/NAME`` for the file of a child run.
        content: the text of the artifact with the file's bytes.
    """
    return stored_file(name, content.encode("utf-8", "surrogateescape"), media_type)


def data_of(file: File) -> dict[str, str]:
    """Return a file as JSON data: ``name``, ``media_type``, and the bytes as base64 in ``data``."""
    data = base64.b64encode(file.content).decode()
    return {"name": file.name, "media_type": file.media_type, "data": data}


def file_from(data: Mapping[str, Any]) -> File:
    """Return the file in JSON data that ``data_of`` made.

    Raises:
        InvalidInput: the value of the key ``data`` is not base64, or the file is not valid.
    """
    try:
        content = base64.b64decode(data["data"], validate=True)
    except ValueError as error:
        raise InvalidInput(
            f"file {data['name']!r:.200}: expected its bytes as base64 in data ({error})"
        ) from error
    return File(data["name"], content, data.get("media_type") or "")


def references_in(value: Any) -> list[FileReference]:
    """Return all file references in JSON data, at any depth, in their order."""
    if not isinstance(value, dict | list):
        return []
    reference = FileReference.of(value)
    if reference is not None:
        return [reference]
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return [each for item in inner for each in references_in(item)]


def with_references(value: Any, attach: Callable[[File], Mapping[str, Any]]) -> Any:
    """Return a copy of a value in which a reference replaces each ``File``.

    Mappings, lists and tuples are searched, too. A tuple becomes a list.

    Args:
        attach: stores a file, and returns the reference to it.
    """
    if isinstance(value, File):
        return attach(value)
    if isinstance(value, Mapping):
        return {name: with_references(item, attach) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_references(item, attach) for item in value]
    return value
