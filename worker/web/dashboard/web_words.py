"""Sentences of verdicts and errors, adapted for web pages.

Verdicts and errors name commands of the command line. A page has buttons for these commands. But
commands that start a worker or a server stay in the sentence.
"""

from __future__ import annotations

import re

_ID = r"[\w.:@/-]*\w"

#: Patterns of commands in a sentence, and their replacements on a page. Longer patterns come first.
_WORDS: tuple[tuple[str, str], ...] = (
    (rf": perdure stop {_ID} and perdure delete {_ID}", ", stop it, then delete it"),
    (rf": perdure delete {_ID}", ", press Delete"),
    (rf": perdure stop {_ID} --now", ", press Stop now"),
    (rf"then: perdure (?:retry|resume) {_ID}", "then retry it"),
    (rf": perdure fork {_ID} STEP", ", on the page of its round"),
    (rf": perdure again {_ID}", ", press Run again"),
    (rf": perdure resume {_ID} --add cycles=\S+", ", press Continue"),
    (rf": perdure resume {_ID}(?! -)", ", press Resume"),
    (rf"; perdure show {_ID} has the answer", ""),
    (rf"; (?:see|inspect it with|read it again|its answer):? perdure show {_ID}", ""),
    (r": perdure flows unpause \S+", ", unpause it on the page Fleet"),
    (rf" \(perdure (?:signal|tree) {_ID}[^)]*\)", ""),
    (rf": perdure show {_ID}", ""),
    (r"; see: perdure list", ". The page Runs has all runs"),
    (r" \(perdure inbox\)", ", in the inbox"),
    (rf"To add: perdure add ({_ID}) (\S+)=AMOUNT", r"Add \2 to run \1"),
)
_PATTERNS = tuple((re.compile(pattern), words) for pattern, words in _WORDS)


def web_words(sentence: str) -> str:
    """Return a verdict's or error's sentence for a page.

    The returned sentence names buttons and pages instead of commands. If no command in the sentence
    has a button, the sentence is unchanged.
    """
    if "perdure " not in sentence:
        return sentence
    for pattern, words in _PATTERNS:
        sentence = pattern.sub(words, sentence)
    return sentence
