"""Conversion of YAML to plain data with line numbers.

YAML tags and aliases are rejected. So a file can neither name code nor expand to more data than it
shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from perdure.flows.core.summaries import safe_text
from perdure.flows.loading.errors import FileFault, InvalidFlowFile, Place, shown

#: Limits far above any flow that a person writes.
MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
#: The YAML tags (``tag:yaml.org,2002:str`` and so on) of values that JSON has too.
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str")}
_TEXT = "tag:yaml.org,2002:str"


@dataclass
class ParsedYaml:
    """The data of a YAML file.

    Attributes:
        file: The file, as error texts name it.
        data: A mapping of JSON values.
        lines: The line at which each value begins, by the value's path in the data.
    """

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)


class _Refused(Exception):
    """Raised when a part of the text is not accepted.

    ``place`` is the path of that part. It is empty if the path is not known.
    """

    def __init__(self, message: str, line: int, place: Place = ()) -> None:
        super().__init__(message)
        self.line, self.place = line, place


class _Loader(yaml.SafeLoader):
    """A loader that accepts plain trees only: no tags, no anchors, no aliases, no deep nesting."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a YAML node.

        Raises:
            _Refused: the node has a tag, an anchor or an alias, or is nested too deep.
        """
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if event.anchor is not None:
            raise _Refused(
                f"anchors and aliases are not accepted: {event.anchor!r}; "
                "write out the value, or quote the text",
                line,
            )
        if event.tag is not None:
            raise _Refused(
                f"tags are not accepted: {event.tag!r}; name a registered command, "
                "node or controller instead",
                line,
            )
        if self.depth > MAX_DEPTH:
            raise _Refused(f"the data is nested more than {MAX_DEPTH} levels deep", line)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_text(content: bytes, file: str) -> ParsedYaml:
    """Parse the content of a flow file to plain data with line numbers.

    Args:
        content: The file's bytes.
        file: The file, as error texts name it.

    Raises:
        InvalidFlowFile: The bytes are not a mapping of JSON values in plain YAML, or are more than
            ``MAX_BYTES``.
    """
    try:
        return _read(content, file)
    except _Refused as refused:
        raise InvalidFlowFile(
            [FileFault(file, refused.line, shown(refused.place), str(refused))]
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise InvalidFlowFile(
            [FileFault(file, mark.line + 1 if mark else 1, "", f"invalid YAML: {what}")]
        ) from error


def read_bytes(path: Path, file: str) -> bytes:
    """Return a flow file's content. At most ``MAX_BYTES`` + 1 bytes are read.

    Args:
        file: The file, as error texts name it.

    Raises:
        InvalidFlowFile: The file cannot be read.
    """
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidFlowFile(
            [FileFault(file, 1, "", f"the file cannot be read: {error.strerror}")]
        ) from error


def _read(content: bytes, file: str) -> ParsedYaml:
    if len(content) > MAX_BYTES:
        raise _Refused(f"the file is larger than {MAX_BYTES} bytes; move data out of the flow", 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refused(
            f"the file is not valid UTF-8: {error.reason}", content[: error.start].count(b"\n") + 1
        ) from error
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise _Refused(
            f"the character {error.character!r} is not allowed: {error.reason}", line
        ) from error
    except (ValueError, OverflowError) as error:  # an escape that is not a valid character
        line = loader.get_mark().line + 1 if loader else 1
        raise _Refused(f"invalid YAML: {error}", line) from error
    if not isinstance(node, yaml.MappingNode):
        raise _Refused(
            "expected a mapping, such as `flow: controller_executor`",
            node.start_mark.line + 1 if node else 1,
        )
    written = ParsedYaml(file)
    written.data = _mapping(loader, node, (), written.lines)
    return written


def _value(loader: _Loader, node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, place, lines)
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            lines[*place, position] = item.start_mark.line + 1
        return [
            _value(loader, item, (*place, position), lines)
            for position, item in enumerate(node.value)
        ]
    return _scalar(loader, node, place)


def _mapping(
    loader: _Loader, node: yaml.MappingNode, place: Place, lines: dict[Place, int]
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        # YAML 1.1 reads `on` as true. It is a setting of `retry`, and keys are never booleans.
        is_on = isinstance(key_node, yaml.ScalarNode) and key_node.value == "on"
        if not isinstance(key_node, yaml.ScalarNode) or (key_node.tag != _TEXT and not is_on):
            raise _Refused(
                f"a key must be text; quote {_excerpt(key_node.value)}"
                if isinstance(key_node.value, str)
                else "a key must be text",
                line,
                place,
            )
        key = "on" if is_on else _scalar(loader, key_node, place)
        here = (*place, key)
        if key in data:
            raise _Refused(f"duplicate key, first used on line {lines[here]}", line, here)
        if key == "_target_":
            raise _Refused(
                "import paths are not accepted: register the object in Python and use its "
                "name here",
                line,
                here,
            )
        lines[here] = line
        data[key] = _value(loader, value_node, here, lines)
    return data


def _scalar(loader: _Loader, node: yaml.Node, place: Place) -> Any:
    line = node.start_mark.line + 1
    if node.tag not in _SCALARS:
        raise _Refused(
            f"YAML reads {_excerpt(node.value)} as a {node.tag.rpartition(':')[2]}, "
            "which JSON does not have; quote it",
            line,
            place,
        )
    try:
        value = loader.construct_object(node)
        str(value).encode("utf-8")
    except (ValueError, ArithmeticError) as error:
        raise _Refused(f"{_excerpt(node.value)} is not valid: {error}", line, place) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused(
            f"{_excerpt(node.value)} is not a finite number, as JSON requires", line, place
        )
    if isinstance(value, int) and abs(value) >= 2**63:
        raise _Refused(f"the number {_excerpt(node.value)} is too large; quote it", line, place)
    return value


def _excerpt(text: str) -> str:
    return repr(safe_text(text, 60))
