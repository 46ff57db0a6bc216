"""Detection of tool calls that a model's server has left in the text of a reply.

A server's parser of calls may fail, or not know the model. The call is then text in the model's own
format. Such text is neither an answer nor a call that can be parsed safely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from perdure.flows.controllers.model.thoughts import is_quoted

#: The beginnings of calls in the formats of open models: Hermes and Qwen, Llama, Mistral, Kimi,
#: DeepSeek, GLM, MiniMax, Granite, Cohere, InternLM, gpt-oss, Gemma.
_MARK = re.compile(
    r"<[|\uff5c]?/?(?:\w+:)?tool[_\u2581]?(?:calls?|uses?)[\w\u2581]*[|\uff5c]?>"
    r"|<(?:\w+:)?function_?calls?>"
    r"|<(?:\w+:)?function=[\w.-]+"
    r"|<(?:\w+:)?invoke\s+name="
    r"|<\uff5cDSML\uff5c"
    r"|<\|(?:python_tag|action_start|plugin|START_ACTION|call)\|>"
    r"|<\|channel\|>commentary"
    r"|\[/?TOOL_CALLS\]"
    r"|```tool_(?:code|calls?)\b"
)
#: A whole reply in a fence of three backticks.
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
#: A call as in Python, alone or in a list. The name is the group.
_PYTHON = re.compile(r"\[?\s*([A-Za-z_][\w.-]*)\(.*\)\s*\]?", re.DOTALL)
#: The keys of a call's name and arguments in JSON.
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "params")


def is_leaked_call(text: str, names: Collection[str]) -> bool:
    """Return whether the text of a reply is or contains a tool call.

    Args:
        names: The names of the tools that were offered.
    """
    fenced = _FENCE.fullmatch(text.strip())
    body = fenced[1] if fenced else text.strip()
    for source in (text, body):
        if any(not is_quoted(source[: mark.start()]) for mark in _MARK.finditer(source)):
            return True
    python = _PYTHON.fullmatch(body)
    if python is not None and python[1] in names:
        return True
    return any(_is_call(value, names) for value in _values(body))


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON value at the beginning of a text.

    If the value is a list, its items are yielded. Nothing is yielded if the text does not begin
    with a JSON object or list.
    """
    if not text.startswith(("{", "[")):
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    yield from value if isinstance(value, list) else [value]


def _is_call(value: Any, names: Collection[str]) -> bool:
    if not isinstance(value, Mapping) or "command" in value:
        return False
    if isinstance(value.get("function"), Mapping):
        return _is_call(value["function"], names)
    if isinstance(value.get("tool_calls"), list):
        return any(_is_call(each, names) for each in value["tool_calls"])
    named = any(isinstance(value.get(key), str) and value[key] in names for key in _NAMES)
    return named and any(key in value for key in _ARGUMENTS)
