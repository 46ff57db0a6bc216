"""Detection of tool calls that a model's server has left in the text of a reply.

A server's parser of calls may fail, or not know the model. The call is then text in the model's own
format. Such text is neither an answer nor a call that can be parsed safely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from perdure.flows.controllers.model.thoughts import TextBefore

#: Names of tags around calls, in lower case. The same names in upper case count, too. Names in
#: mixed case are types of programs, such as ``List<ToolCall>``.
_TAGS = "tool[_\u2581]?(?:calls?|uses?)|function_?calls?"
#: The beginnings of calls in the formats of models.
_MARKS = (
    # Hermes and Qwen, Kimi, DeepSeek, GLM, MiniMax, Granite, Gemma, Nemotron, LFM. The parts of the
    # name are short, so that the search takes time linear in the length of the text.
    (
        rf"(?<!\w)<[|\uff5c]?/?(?:\w{{1,40}}[:_])?(?:{_TAGS}|{_TAGS.upper()})"
        r"[\w\u2581]{0,60}[|\uff5c]?>"
    ),
    r"<(?:\w+:)?function=[\w.-]+",  # Llama
    r"<(?:\w+:)?invoke\s+name=",  # Claude, MiniMax, Step
    r"<\uff5cDSML\uff5c",  # DeepSeek
    # Llama, InternLM, Cohere, Apertus
    r"<\|(?:python_tag|action_start|plugin|START_ACTION|call|tools_prefix)\|>",
    r"<\|channel\|>commentary",  # gpt-oss
    # gpt-oss, bare
    r"^[^\w\n]*+(?:commentary|analysis)? to=functions\.\w",
    r"assistant(?:commentary|analysis) to=functions\.\w",
    r"(?:^|(?<=\S))assistant to=functions\.\w",
    r"\[/?TOOL_CALLS\]|\[TOOL_REQUEST\]",  # Mistral, LM Studio
    r"^functools\[\{",  # Phi
    r"```tool_(?:code|calls?)\b",  # Gemma
    r"\u273fFUNCTION\u273f",  # Qwen-Agent
)
_MARK = re.compile("|".join(_MARKS), re.MULTILINE)
#: The beginnings of calls that count only with the name of an offered tool. Possessive, so that the
#: search takes time linear in the length of the text.
_NAMED_MARK = re.compile(
    r"^>>>(?P<functionary>[\w.-]++)[ \t]*+\n\s*+\{"
    r"|^[^\w\n]*+action[^\w\n]++(?P<react>[\w.-]++)[^\w\n]*+\n\W*+action[ _]input\b",
    re.MULTILINE | re.IGNORECASE,
)
#: The beginning of an object in JSON, or of a list of objects, in a line of its own.
_JSON = re.compile(r"^[ \t]*(?=\{\s*\"|\[\s*\{\s*\")", re.MULTILINE)
#: Maximum beginnings of JSON that are read. Each may take the time to read the rest of the text.
MOST_READ = 100
#: The possible beginning of a reply before its first JSON, and its possible end after the last,
#: which may have a model's special tokens.
_LEAD = re.compile(r"\s*(?:```\w*\s*)?")
_END = re.compile(r"(?:[\s`;]|<\|[^|>]{1,40}\|>|</?\w{1,20}>)*+")
#: A whole reply in a fence of three backticks.
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
#: The beginning of an object in JSON.
_COMMAND = re.compile(r"\{\s*\"\w+\"\s*:")
#: A call as in Python, alone or in a list. The name is the group.
_PYTHON = re.compile(r"\[?\s*([A-Za-z_][\w.-]*)\(.*\)\s*\]?", re.DOTALL)
#: The keys of a call's name and arguments in JSON, and other keys of calls.
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "command")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "params", "command_args")
_OTHERS = ("id", "call_id", "type", "thought", "thoughts", "index")
#: The states of a call in the format of OpenAI's Responses. Other values are those of a log.
_STATES = ("in_progress", "completed", "incomplete")


def is_leaked_call(text: str, names: Collection[str], commands: bool = True) -> bool:
    """Return whether the text of a reply is or contains a tool call.

    Args:
        names: The names of the tools that were offered.
        commands: Whether a command in the JSON format of flows counts as a call, too. Such a
            command counts with any name if it is the whole text.
    """
    fenced = _FENCE.fullmatch(text.strip())
    body = fenced[1] if fenced else text.strip()
    if _has_mark(text) or _has_mark(body):
        return True
    python = _PYTHON.fullmatch(body)
    called = [mark["functionary"] or mark["react"] for mark in _NAMED_MARK.finditer(text)]
    if python is not None:
        called.append(python[1])
    return (
        any(name in names for name in called)
        or _has_json_call(text, names, commands)
        or (commands and _is_command(body, names))
    )


def _has_mark(text: str) -> bool:
    """Return whether a text has the beginning of a call that is not quoted or in a code span."""
    before, at = TextBefore(), 0
    for mark in _MARK.finditer(text):
        before.add(text[at : mark.start()])
        at = mark.start()
        if not (before.is_quoted or before.is_in_span):
            return True
    return False


def _is_command(body: str, names: Collection[str]) -> bool:
    """Return whether a text is a command in the JSON format and nothing else.

    The end of the command may be missing.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _COMMAND.match(body) is not None and '"command_args"' in body
    if not isinstance(value, Mapping) or "command" not in value:
        return False
    name = value["command"]
    return "command_args" in value or (isinstance(name, str) and name in names)


def _has_json_call(text: str, names: Collection[str], commands: bool) -> bool:
    """Return whether a text begins or ends with a call in JSON.

    After other words, a log or an example may look like a call. So a call there counts only if
    nothing follows it and all its keys are keys of calls.

    Args:
        names: the names of the tools that the request offered.
        commands: whether Perdure's own format of a command counts as a call, too.
    """
    last: tuple[list[Any], int] | None = None
    for values, begin, end in _values(text):
        is_first = last is None and _LEAD.fullmatch(text, 0, begin)
        if is_first and any(_is_call(each, names, commands) for each in values):
            return True
        last = values, end
    if last is None or not _END.fullmatch(text, last[1]):
        return False
    return any(_is_call(each, names, commands, has_call_keys_only=True) for each in last[0])


def _values(text: str) -> Iterator[tuple[list[Any], int, int]]:
    """Yield the JSON objects that begin in a line of their own, also those of a list.

    Their begin and end in the text follow the objects.
    """
    # Models leave raw line breaks in strings.
    decoder, end = json.JSONDecoder(strict=False), 0
    for _ in range(MOST_READ):
        found = _JSON.search(text, end)
        if found is None:
            return
        begin = found.end()
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin + 1
        else:
            yield (value if isinstance(value, list) else [value]), begin, end


def _is_call(
    value: Any, names: Collection[str], commands: bool, has_call_keys_only: bool = False
) -> bool:
    """Return whether a JSON value is a call of an offered tool. A tool's definition is none."""
    if not isinstance(value, Mapping) or ("command" in value and not commands):
        return False
    if isinstance(value.get("function"), Mapping):
        return _is_call(value["function"], names, commands, has_call_keys_only)
    if isinstance(value.get("tool_calls"), list):
        return any(
            _is_call(each, names, commands, has_call_keys_only) for each in value["tool_calls"]
        )
    if {"description", "parameters"} <= value.keys():
        return False
    others = value.keys() - {*_NAMES, *_ARGUMENTS, *_OTHERS}
    if value.get("type") == "function_call" and value.get("status") in _STATES:
        others -= {"status"}
    if has_call_keys_only and others:
        return False
    named = any(isinstance(value.get(key), str) and value[key] in names for key in _NAMES)
    # A list has the arguments of a program, or the names of a tool's parameters.
    return named and any(key in value and not isinstance(value[key], list) for key in _ARGUMENTS)
