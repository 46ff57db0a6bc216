"""Reasoning and calls that a model's server leaves in the text of a reply are no answer, in any
pieces of the text.
"""

from __future__ import annotations

import pytest

from perdure.flows.controllers.model.leaked_calls import is_leaked_call
from perdure.flows.controllers.model.thoughts import MOST_HELD, ThoughtSplitter, without_thoughts
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each

#: A reply's text, and its words.
TEXTS: Cases = {
    "one thought": ("<think>secret</think>\n\nHello!", "Hello!"),
    "after line breaks": ("\n<think>\nsecret\n</think>\n\nHello!", "Hello!"),
    "not opened": ("I should greet.\n</think>\n\nHello!", "Hello!"),
    "not opened, on one line": ("I should greet.</think>Hello!", "Hello!"),
    "two ends": ("I should\n</think>\ngreet.\n</think>\nHello!", "Hello!"),
    "not closed": ("<think>I am still thinking about it", ""),
    "in the middle": ("Hello <think>secret</think>you!", "Hello you!"),
    "two thoughts": ("<think>a</think>Hello\n<think>b</think>you!", "Hello\nyou!"),
    "empty": ("<think>\n\n</think>\n\nHello!", "Hello!"),
    "a tag that is not a thought": (
        "Hello <thin ice> <b>you</b> <",
        "Hello <thin ice> <b>you</b> <",
    ),
    "quoted": ("Write `<think>` and `</think>`.", "Write `<think>` and `</think>`."),
    "named": ("The tag <think> opens a thought.", "The tag <think> opens a thought."),
    "in code": ("```\n<think>a</think>\n```", "```\n<think>a</think>\n```"),
    "other tags": ("<thinking>secret</thinking>Hello!", "Hello!"),
    "other tags, named": ("Use <thinking> now.", "Use <thinking> now."),
    "other tags, named in a line": ("<b>\n<thinking>\nis a tag.", "<b>\n<thinking>\nis a tag."),
    "other tags, after text": (
        "Sure.\n\n<thinking>\nplan\n</thinking>\nHello!",
        "Sure.\n\n<thinking>\nplan\n</thinking>\nHello!",
    ),
    "other tags, as elements": (
        "<review>\n<reasoning>It is legal.</reasoning>\n<verdict>yes</verdict>\n</review>",
        "<review>\n<reasoning>It is legal.</reasoning>\n<verdict>yes</verdict>\n</review>",
    ),
    "other tags, several": (
        "<thinking>a</thinking>\n<reasoning>b</reasoning>Hello!",
        "Hello!",
    ),
    "marks, after text": ("Sure.\n\n[THINK]secret[/THINK]\nHello!", "Sure.\n\n\nHello!"),
    "other tags, in code": (
        "So:\n```\n<thinking>a</thinking>\n```\nthinks.",
        "So:\n```\n<thinking>a</thinking>\n```\nthinks.",
    ),
    "other tags, not opened": ("Summary\n</reasoning>\nDone", "Summary\n</reasoning>\nDone"),
    "a prefix, not opened": ("secret</seed:think>\n\nHello!", "Hello!"),
    "other tags, end named": ("Write </thinking> last.", "Write </thinking> last."),
    "other tags, as data": (
        'It is <thought id="1">a</thought>\nin XML.',
        'It is <thought id="1">a</thought>\nin XML.',
    ),
    "upper case": ("<THINK>secret</THINK>Hello!", "Hello!"),
    "capitalized": ("<Think>secret</Think>Hello!", "Hello!"),
    "thoughts": ("<thoughts>secret</thoughts>Hello!", "Hello!"),
    "with a prefix": ("<mm:think>secret</mm:think>Hello!", "Hello!"),
    "of Gemma": ("<|channel>thought\nsecret<channel|>Hello!", "Hello!"),
    "of Apertus": ("<|inner_prefix|>secret<|inner_suffix|>Hello!", "Hello!"),
    "of Cohere": (
        "<|START_THINKING|>secret<|END_THINKING|><|START_RESPONSE|>Hello!<|END_RESPONSE|>",
        "Hello!",
    ),
    "of Mistral, not opened": ("secret[/THINK]Hello!", "Hello!"),
    "of gpt-oss, without tags": ("analysisWe greet.assistantfinalHello!", "Hello!"),
    "of gpt-oss, bare, with code": (
        "analysisWrite code.assistantfinal```python\nprint(1)\n```",
        "```python\nprint(1)\n```",
    ),
    "of gpt-oss, bare, with quotes": (
        'analysis"Hi" greets. Reply "Hello!"assistantfinalHello!',
        "Hello!",
    ),
    "of gpt-oss, bare, in lines": ("analysisWe greet.\nassistantfinal\nHello!", "Hello!"),
    "of gpt-oss, bare, in bold": ("analysis**Plan**assistantfinalHello!", "Hello!"),
    "of gpt-oss, bare, with a quoted mark": (
        'analysisWe explain.assistantfinalServers print "assistantfinal" first.',
        'Servers print "assistantfinal" first.',
    ),
    "about analysis words": (
        "analysisResult precedes theassistantfinal mark.",
        "analysisResult precedes theassistantfinal mark.",
    ),
    "about analysis paths": (
        "analysis/a.md is written; the mark is\nassistantfinal\nin line 3.",
        "analysis/a.md is written; the mark is\nassistantfinal\nin line 3.",
    ),
    "about analysis functions": (
        "analysis(x) returns 'assistantfinal' for 1.",
        "analysis(x) returns 'assistantfinal' for 1.",
    ),
    "about analysis": ("analysis is final", "analysis is final"),
    "about analysis files": (
        "analysis: see assistantfinal.md",
        "analysis: see assistantfinal.md",
    ),
    "about analysis names": (
        "analysisResult is not `assistantfinal`.",
        "analysisResult is not `assistantfinal`.",
    ),
    "end of a reply": ("Hello!<|end|>", "Hello!<|end|>"),
    "of Mistral": ("[THINK]secret[/THINK]Hello!", "Hello!"),
    "of gpt-oss": (
        (
            "<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>final<|message|>Hello!<|return|>"
        ),
        "Hello!",
    ),
    "of gpt-oss, behind another end": (
        "<|channel|>final<|message|>x |>Hello!<|im_end|><|end|><|return|>",
        "x |>Hello!<|im_end|>",
    ),
    "of gpt-oss, with a role": (
        (
            "<|start|>assistant<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>final<|message|>Hello!"
        ),
        "Hello!",
    ),
    "of gpt-oss, twice": (
        (
            "<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>final<|message|>Hello!<|return|>"
        ),
        "Hello!",
    ),
    "of gpt-oss, with a format": (
        (
            "<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>final <|constrain|>json<|message|>{}<|return|>"
        ),
        "{}",
    ),
}

#: Texts in which a call leaked, of a model that was offered `add`.
CALLS: Cases = {
    "hermes": ('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',),
    "hermes, cut": ('<tool_call>\n{"name": "add"',),
    "after words": ("I add.\n<tool_call>{}</tool_call>",),
    "glm": ("<tool_call>add\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",),
    "llama": ('<|python_tag|>{"name": "add", "parameters": {"a": 1}}',),
    "llama, in words": ("<function=add>{}</function>",),
    "mistral": ('[TOOL_CALLS][{"name": "add", "arguments": {}}]',),
    "kimi": ("<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0",),
    "deepseek": (
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>add",
    ),
    "minimax": ('<minimax:tool_call><invoke name="add"></invoke></minimax:tool_call>',),
    "gpt-oss": ("<|channel|>commentary to=functions.add<|message|>{}",),
    "json": ('{"name": "add", "arguments": {"a": 1}}',),
    "json in a fence": ('```json\n{"name": "add", "parameters": {"a": 1}}\n```',),
    "json of OpenAI": ('[{"type": "function", "function": {"name": "add", "arguments": "{}"}}]',),
    "python": ("[add(a=1, b=2)]",),
    "upper case": ('<TOOLCALL>[{"name": "add", "arguments": {"a": 1}}]</TOOLCALL>',),
    "prefix": ("<start_function_call>call:add{a:1}<end_function_call>",),
    "lm studio": ('[TOOL_REQUEST]{"name": "add"}[END_TOOL_REQUEST]',),
    "functools": ('functools[{"name": "add", "arguments": {"a": 1}}]',),
    "apertus": ('<|tools_prefix|>[{"add": {"a": 1}}]<|tools_suffix|>',),
    "functionary": ('>>>add\n{"a": 1}',),
    "react": ('Thought: I add.\nAction: add\nAction Input: {"a": 1}',),
    "react, bold": ('**Action:** `add`\n**Action Input:** {"a": 1}',),
    "gpt-oss, bare": ('assistantcommentary to=functions.add json{"a":1}',),
    "gpt-oss, bare, after reasoning": (
        'analysisWe add.assistantcommentary to=functions.add json{"a":1}',
    ),
    "gpt-oss, bare, role first": ('analysisWe add.assistant to=functions.add code{"a":1}',),
    "json after words": ('I add.\n{"name": "add", "arguments": {"a": 1}}',),
    "json list after words": ('I add.\n[\n {"name": "add", "arguments": {"a": 1}}\n]',),
    "json in a fence after words": ('I add.\n```json\n{"name": "add", "arguments": {}}\n```',),
    "own format": ('{"command": "add", "args": {"a": 1}}',),
    "own format, without arguments": ('{"command": "add"}',),
    "own format, in a list": ('[{"command": "add", "command_args": {"a": 1}}]',),
    "own format after words": (
        'I add.\n```json\n{"thought": "t", "command": "add", "command_args": {"a": 1}}\n```',
    ),
    "own format, before words": ('{"command": "add", "command_args": {"a": 1}}\nDone.',),
    "json, two after words": (
        'I add.\n{"name": "sub", "args": {}}\n{"name": "add", "args": {}}\n',
    ),
    "json with more keys, alone": ('{"tool": "add", "input": {"a": 1}, "at": "12:00"}',),
    "json with a line break in a text": ('{"name": "add", "arguments": {"a": "x\ny"}}',),
    "json before a token": ('I add.\n{"name": "add", "arguments": {"a": 1}}<|im_end|>',),
    "json before an end": ('I add.\n{"name": "add", "arguments": {"a": 1}}</s>',),
    "json before a semicolon": ('I add.\n{"name": "add", "arguments": {"a": 1}};',),
    "json with an index": ('I add.\n{"name": "add", "arguments": {"a": 1}, "index": 0}',),
    "json of Responses": (
        (
            'I add.\n{"type": "function_call", "id": "f", "call_id": "c", "name": "add", '
            '"arguments": "{}", "status": "completed"}'
        ),
    ),
    "code of gemma": ("```tool_code\nprint(add(1))\n```",),
}

WORDS: Cases = {
    "plain": ("The sum is 3.",),
    "json": ('{"name": "Ann", "arguments": {}}',),
    "code": ("```python\nadd(1)\nadd(2)\n```\nruns twice.",),
    "quoted": ("Models write `<tool_call>` before a call.",),
    "in code": ("So:\n```\n<tool_call>{}</tool_call>\n```\nas Hermes does.",),
    "named json": ('Call it as `{"name": "add", "arguments": {}}`, or {"name": "add"}.',),
    "json in a line": ('As in the call {"name": "add", "arguments": {"a": 1}} of yesterday.',),
    "json without arguments": ('I have two:\n{"name": "add", "kind": "tool"}',),
    "json of others": ('So:\n```json\n{"name": "search", "arguments": {"a": 1}}\n```',),
    "json of a server": ('{"mcpServers": {}}\n{"command": "uvx", "args": ["add"]}',),
    "a server in own format": ('{"name": "add", "command": "uvx", "args": ["--all"]}',),
    "a definition": (
        '```json\n{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}\n```',
    ),
    "definitions of OpenAI": (
        '[{"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}]',
    ),
    "a definition after words": (
        'I have:\n```json\n{"name": "add", "description": "Adds.", "parameters": {}}\n```',
    ),
    "a log": ('It did:\n```json\n{"tool": "add", "input": {"a": 1}, "at": "12:00"}\n```',),
    "a report": ('Report:\n{"function": "add", "args": {"a": 1}, "seconds": 3}\nend',),
    "an example": (
        'Call it so:\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\nThe result is 1.',
    ),
    "a documented format": (
        'Use this.\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\n| a | b |',
    ),
    "two calls between words": (
        'It did.\n{"name": "add", "arguments": {}}\n{"name": "add", "arguments": {}}\nDone.',
    ),
    "a report of a call": (
        'I called it.\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\nIt returned 3.',
    ),
    "about the format of a call": ("The assistant to=functions.add is a format of gpt-oss.",),
    "a log with a status": ('Done.\n{"tool": "add", "input": {"a": 1}, "status": "ok"}',),
    "a log with a reason": ('Done.\n{"tool": "add", "input": {"a": 1}, "reason": "no net"}',),
    "a list of tools": (
        '[{"name": "add", "parameters": ["a", "b"]}, {"name": "finish", "parameters": []}]',
    ),
    "a log between words": (
        'It did.\n{"name": "add", "arguments": {"a": 1}, "seconds": 3}\nDone.',
    ),
    "a definition between words": (
        'I have it.\n{"name": "add", "description": "", "parameters": {}}\nDone.',
    ),
    "a transcript": ('So it went.\n```\nUser\n{"name": "add", "arguments": {}}\n```\nDone.',),
    "types": ("It returns a List<ToolCall> or Map<FunctionCall>.\n<ToolCall>\nshows one.",),
    "code span": ("Hermes wraps calls (`<tool_call>...</tool_call>`).",),
    "action": ("Action: add the numbers.\nInput: none.",),
    "action of another": ("Action: wait\nAction Input: none",),
    "prompt": (">>> add(1)\n{1}\n>>>sub\n{1}",),
    "functools": ("functools[0] is no function; functools.cache is.",),
    "maths": ("f(x) = add(x)",),
}


def test_thoughts_in_a_text_are_not_its_words_however_it_is_cut(each_case: Each) -> None:
    def check(text: str, words: str) -> None:
        assert without_thoughts(text)[0].strip() == words.strip()
        for size in (1, 2, 3, 5, 7, len(text)):
            splitter = ThoughtSplitter()
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            segments = [each for piece in pieces for each in splitter.feed(piece)]
            said = "".join(
                each.content for each in [*segments, *splitter.flush()] if each.kind == "text"
            )
            assert without_thoughts(said)[0].strip() == words.strip(), f"pieces of {size}"

    each_case(TEXTS, check)


def test_thoughts_are_kept_apart_from_the_words() -> None:
    assert without_thoughts("<think> a </think>Hello\n<think>b</think>") == ("Hello\n", "a\n\nb")
    assert without_thoughts("I greet.\n</think>\nHello") == ("\nHello", "I greet.")


def test_text_behind_a_tag_that_is_never_closed_does_not_wait_without_a_limit() -> None:
    splitter = ThoughtSplitter()
    splitter.feed("The tag <think> ")
    said = "".join(each.content for each in splitter.feed("x" * (MOST_HELD + 1)))
    assert said.startswith("<think> x") and splitter.flush() == []


def test_a_call_that_leaked_into_the_text_is_known_in_the_formats_of_models(
    each_case: Each,
) -> None:
    def check(text: str) -> None:
        assert is_leaked_call(text, {"add", "finish"})

    each_case(CALLS, check)


def test_words_about_calls_are_no_call(each_case: Each) -> None:
    def check(text: str) -> None:
        assert not is_leaked_call(text, {"add", "finish"})

    each_case(WORDS, check)


@pytest.mark.parametrize("start", ["<", "analysis", "<|channel|>final<|message|>"])
@pytest.mark.parametrize(
    "text",
    [
        "\n",
        " ",
        '[{"',
        '[\n{"',
        "<a_",
        "_tool_call",
        ">>>add\n",
        "Action: add\n\n ",
        "```\n",
        "<thinking>\n",
        "</think>`",
        "`</think>`",
        "<think>",
        "x <think> ",
        "\n[THINK]a",
        "<|end|>",
        "[/THINK]`",
    ],
)
@pytest.mark.timeout(20)  # a search in quadratic time takes 25 s and longer
def test_no_search_takes_longer_than_the_text(start: str, text: str) -> None:
    whole = text * (500_000 // len(text)) + "x"
    assert not is_leaked_call(start + whole, {"add"})
    words, thoughts = without_thoughts(start + whole)
    assert len(words) + len(thoughts) >= len(whole) - len("</think>")
