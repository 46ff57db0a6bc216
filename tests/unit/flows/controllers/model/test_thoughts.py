"""Reasoning and calls that a model's server leaves in the text of a reply are no answer, in any
pieces of the text.
"""

from __future__ import annotations

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
    "of Mistral": ("[THINK]secret[/THINK]Hello!", "Hello!"),
    "of gpt-oss": (
        (
            "<|channel|>analysis<|message|>secret<|end|><|start|>assistant"
            "<|channel|>final<|message|>Hello!<|return|>"
        ),
        "Hello!",
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
    "code of gemma": ("```tool_code\nprint(add(1))\n```",),
}

WORDS: Cases = {
    "plain": ("The sum is 3.",),
    "json": ('{"name": "Ann", "arguments": {}}',),
    "code": ("```python\nadd(1)\nadd(2)\n```\nruns twice.",),
    "quoted": ("Models write `<tool_call>` before a call.",),
    "in code": ("So:\n```\n<tool_call>{}</tool_call>\n```\nas Hermes does.",),
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
