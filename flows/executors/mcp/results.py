"""Declarations of an MCP server's tools, and conversion of their results to observations."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perdure.flows.core.errors import (
    BadReply,
    FatalError,
    InvalidInput,
    PerdureError,
    UnstorableValue,
)
from perdure.flows.core.files import File, check_together, file_from
from perdure.flows.core.json_values import storable
from perdure.flows.core.summaries import MOST_KEPT, safe_ends, safe_text

if TYPE_CHECKING:
    import mcp_types
    from mcp_types import CallToolResult

#: Maximum characters of a tool's description for controllers, and of one fault in its arguments.
DESCRIPTION, FAULT = 4000, 300
#: Maximum number of faults in one error.
FAULTS = 5
#: First characters of the JSON of structured content, by its type.
OPENINGS: dict[type, str] = {dict: "{", list: "[", str: '"'}
#: Maximum characters of a result whose texts are parsed to compare them with each value of its
#: structured content. All sessions of a process wait for the comparison.
COMPARED_CHARACTERS = 256 * 1024


@dataclass(frozen=True)
class Tool:
    """A server's declaration of a tool.

    Attributes:
        name: name of the tool.
        description: the server's description, cut after ``DESCRIPTION`` characters.
        schema: JSON schema of the tool's arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]

    @classmethod
    def of(cls, declared: mcp_types.Tool) -> Tool:
        """Convert the client library's declaration of a tool. A long description is cut."""
        return cls(
            declared.name, safe_text(declared.description or "", DESCRIPTION), declared.input_schema
        )

    def check(self, args: Mapping[str, Any], what: str) -> None:
        """Validate a tool's arguments against its JSON schema.

        Args:
            what: The command's name, for errors.

        Raises:
            BadReply: The schema does not accept the arguments. The message names the wrong ones.
            FatalError: The schema is invalid or takes too many steps.
        """
        from referencing.exceptions import Unresolvable

        from perdure.flows.executors.mcp.bounds import TooManySteps, counting

        try:
            with counting():
                faults = [
                    safe_text(_fault(error), FAULT)
                    for error in self._validator.iter_errors(dict(args))
                ]
        except (TooManySteps, RecursionError) as error:
            raise FatalError(
                f"tool {self.name!r}: validation against its JSON schema takes too many "
                "steps; simplify the schema"
            ) from error
        except Unresolvable as error:
            raise FatalError(
                f"tool {self.name!r}: its schema refers to {safe_text(str(error), FAULT)}, "
                "which is not in it"
            ) from error
        if faults:
            more = f"; and {len(faults) - FAULTS} more" if len(faults) > FAULTS else ""
            raise BadReply(
                f"{what} does not accept these arguments: "
                f"{'; '.join(faults[:FAULTS])}{more}. It takes: {self._described()}"
            )

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        from perdure.flows.executors.mcp.bounds import bounded

        kind = bounded(validator_for(self.schema, default=Draft202012Validator))
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise FatalError(
                f"tool {self.name!r}: its server declares an invalid JSON schema: "
                f"{safe_text(error.message, FAULT)}"
            ) from error
        # The registry is empty, so that a "$ref" to another document is not downloaded.
        return kind(self.schema, registry=Registry())

    def _described(self) -> str:
        required = self.schema.get("required", [])
        named = [
            name if name in required else f"{name} (optional)"
            for name in self.schema.get("properties", {})
        ]
        return ", ".join(named) or "no arguments"


def _fault(error: Any) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    return f"{path}: {error.message}" if path else str(error.message)


#: Maximum characters shown of a tool's own error. With the names of its class and its tool, it
#: stays below the limit of an observed error, which would cut off its end.
TOLD_CHARACTERS = 1850


class ToolFailed(PerdureError):
    """Raised when a tool or its server reports an error. The controller may correct the call."""

    code = "tool-failed"


def error_text(text: str) -> str:
    """Return a tool's error without its middle if it is too long. The cause is often at the end."""
    return safe_ends(text, TOLD_CHARACTERS)


def text_of_server(error: BaseException, data: Any) -> str:
    """Return the text of an error, with the data that an MCP server sent with it as JSON.

    Args:
        data: The data of an MCPError, without secrets. None: the server sent none.
    """
    from mcp import MCPError

    if not isinstance(error, MCPError):
        return str(error) or type(error).__name__
    message = error.message or f"error {error.code}"
    if data is None:
        return message
    return f"{message}; data: {json.dumps(data, ensure_ascii=False, sort_keys=True)}"


def observation_of(result: CallToolResult, what: str) -> Any:
    """Convert an MCP result to an observation: its structured content, else its texts.

    Texts that the structured content does not repeat are beside it, under ``text``. Pictures and
    other data become files. If there are any, the observation is an object: the content is under
    ``result`` and the files are under ``files``. Data that cannot be a file of a run is only named,
    under ``left_out``. A content that cannot be stored becomes its JSON as a text.

    Args:
        what: The tool and its server, for errors.

    Raises:
        ToolFailed: The tool reports an error.
    """
    texts, files, left_out = _parts(result.content)
    structured = result.structured_content
    if result.is_error:
        sent = [*(file.name for file in files), *left_out]
        raise ToolFailed(error_text(_text_of_error(texts, structured, sent, what)))
    # Some servers send an empty object with each result.
    has_none = structured is None or (structured == {} and bool(texts))
    content = "\n".join(texts) if has_none else structured
    more = [] if has_none else _texts_beside(structured, texts)
    try:
        told = storable(content, f"the result of {what}")
    except UnstorableValue:  # caused by the server: NaN, or deep nesting
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        told = safe_text(text, MOST_KEPT)
    values = (("text", "\n".join(more)), ("files", files), ("left_out", left_out))
    beside = {name: each for name, each in values if each}
    return {"result": told, **beside} if beside else told


def _texts_beside(structured: Any, texts: list[str]) -> list[str]:
    """Return the texts of a result that its structured content does not repeat.

    A server repeats the content as JSON in one text, or one of its values in each text. Numbers are
    compared by value: a server may send 5 in a text and 5.0 in the structured content. Texts of a
    long result are not parsed (``_repeats_items``).
    """
    others = [text for text in texts if text.strip() and not _is_json_of(text, structured)]
    if not others:
        return []
    values: set[Any] = set()
    try:
        size = len(json.dumps(structured, ensure_ascii=False)) + sum(map(len, others))
        if size > COMPARED_CHARACTERS:
            return [] if _repeats_items(structured, texts) else _not_in(structured, others)
        _collect(structured, values)
    except RecursionError:
        return others
    return [text for text in others if not _is_in(values, text)]


def _is_json_of(text: str, structured: Any) -> bool:
    """Return whether a text is the JSON of structured content: an object, a list or a text."""
    opening = OPENINGS.get(type(structured))
    if opening is None or not text.lstrip().startswith(opening):
        return False
    with suppress(ValueError, RecursionError):
        return bool(json.loads(text) == structured)
    return False


def _repeats_items(structured: Any, texts: list[str]) -> bool:
    """Return whether each text repeats one item of a list, as the official servers send a list.

    They send the list under ``result``. Later versions of the protocol allow a list by itself.
    Texts are not parsed: a text that begins like an object counts as the object in its place.
    """
    items = structured.get("result") if isinstance(structured, dict) else structured
    if not isinstance(items, list) or len(items) != len(texts):
        return False
    return all(
        text.lstrip().startswith("{")
        if isinstance(item, dict)
        else text == (item if isinstance(item, str) else json.dumps(item))
        for item, text in zip(items, texts, strict=True)
    )


def _not_in(structured: Any, texts: list[str]) -> list[str]:
    """Return the texts that are not equal to a text in structured content."""
    found: set[str] = set()
    left = [structured]
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
    return [text for text in texts if text not in found and text.strip() not in found]


def _collect(value: Any, values: set[Any]) -> Hashable:
    """Add a JSON value, and all values in it, to a set. Return the value as it is in the set."""
    key: Hashable = value
    if isinstance(value, dict):
        key = frozenset((name, _collect(each, values)) for name, each in value.items())
    elif isinstance(value, list):
        key = tuple(_collect(each, values) for each in value)
    elif isinstance(value, bool):
        key = (bool, value)  # Python's True equals 1
    values.add(key)
    return key


def _is_in(values: set[Any], text: str) -> bool:
    """Return whether values of ``_collect`` have a text, or the value that it has if it is JSON."""
    if text in values or text.strip() in values:
        return True
    with suppress(ValueError, RecursionError):
        return _collect(json.loads(text), set()) in values
    return False


def _text_of_error(texts: list[str], structured: Any, sent: list[str], what: str) -> str:
    """Return the error text for a result that reports an error.

    It has the texts of the result, and its structured content as JSON, unless a text repeats that.
    Pictures and other data are only named, because an error cannot hold files.

    Args:
        texts: The texts of the result.
        structured: The structured content of the result.
        sent: Names of the pictures and other data in the result.
        what: The tool and its server. Used if the result has no texts and no structured content.
    """
    told = [text for text in texts if text.strip()]
    if structured and not any(_is_json_of(text, structured) for text in texts):
        told.append(json.dumps(structured, ensure_ascii=False, sort_keys=True))
    if not told:
        told.append(f"{what} failed without an error message")
    if sent:
        told.append(f"(it also sent {', '.join(sent)}, which an error does not keep)")
    return "\n".join(told)


def _parts(content: Any) -> tuple[list[str], list[File], list[str]]:
    """Return the texts of a result, its files, and descriptions of data that cannot be a file."""
    texts: list[str] = []
    files: list[File] = []
    left_out: list[str] = []

    def keep(uri: str, media_type: str | None, data: str, name: str) -> None:
        media_type = (media_type or "").partition(";")[0].strip().lower()
        try:
            file = file_from({"name": name, "media_type": media_type, "data": data})
            check_together([*files, file])
            files.append(file)
        except InvalidInput:
            left_out.append(f"{uri} ({media_type or 'unknown type'}, {_size(data)})")

    for part in content:
        if part.type == "text":
            texts.append(part.text)
        elif part.type == "resource_link":
            texts.append(f"{part.name}: {part.uri}")
        elif part.type == "resource" and hasattr(part.resource, "text"):
            texts.append(f"{part.resource.uri}:\n{part.resource.text}")
        elif part.type == "resource":
            uri = str(part.resource.uri)
            keep(uri, part.resource.mime_type, part.resource.blob, uri.rstrip("/").split("/")[-1])
        else:
            suffix = part.mime_type.partition("/")[2].partition(";")[0].strip().lower()
            name = f"{part.type}-{len(files) + 1}.{suffix}"
            keep(part.type, part.mime_type, part.data, name)
    return texts, files, left_out


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4 - base64.count('=')} bytes"
