"""The operators that plant faults into a Lua source, and the mutants that they make of it.

| operator | fault |
|---|---|
| drop | a call or an assignment is left out |
| never | a condition never holds |
| always | a condition of one operand always holds |
| operand | one operand of ``and``, ``or``, ``math.min`` or ``math.max`` is left out |
| negate | ``not`` or a minus is left out, or a truth value is the other one |
| compare | a comparison is replaced by its neighbour |
| number | a number is one greater |
| swap | a function, a command or a sign is replaced by its opposite |
| word | a script or a function returns another of its words |
| field | one field is not written, not read or not deleted |
| item | one element of a table is left out |
| flag | a script that may run on a full server may not, or the reverse |
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from tests.mutants.mutant import FILES, Mutant
from tests.mutants.syntax import Node, Parser

NEIGHBOURS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "=="}
OPPOSITES = {
    "math.min": "math.max", "math.max": "math.min", "+": "-", "-": "+", "true": "false", "false": "true",
    "'LPUSH'": "'RPUSH'", "'RPUSH'": "'LPUSH'", "'RPOP'": "'LPOP'", "'-inf'": "'+inf'",
}  # fmt: skip
#: A greater number is a bound that was measured: no test can tell it from the next one.
GREATEST = 20
#: Commands and functions whose arguments behind the first two are names and values, or names.
PAIRS = {"set": 1, "HSET": 2, "event": 4}
NAMES = {"unset": 1, "HDEL": 2}
WORD = re.compile(r"'[a-z_]+'$")
#: Read by several scripts, and no word of a reply.
NO_WORD = frozenset({"'live'"})
Change = tuple[str, Node, list[tuple[int, int, str]]]


class Source:
    """A Lua file and its mutants by the operators."""

    def __init__(self, file: str, text: str | None = None) -> None:
        self.file = file
        self.text = FILES[file].read_text("utf-8") if text is None else text
        parser = Parser(self.text)
        self.tree, self.tokens = parser.chunk(), parser.tokens

    def normal(self, node: Node) -> str:
        """Return the text of a part, apart from how it is formatted."""
        return " ".join(token.text for token in self.tokens[node.first : node.last])

    def start(self, place: int) -> int:
        return self.tokens[place].start

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return where the tokens from ``first`` to ``last`` (excluded) stand in the text."""
        return self.tokens[first].start, self.tokens[last - 1].end

    def put(self, node: Node, text: str) -> list[tuple[int, int, str]]:
        """Return the edit that writes ``text`` instead of a part."""
        return [(*self.span(node.first, node.last), text)]

    def without(self, node: Node, others: tuple[Node, ...]) -> list[tuple[int, int, str]]:
        """Return the edit that leaves out one of several parts, with the sign beside it."""
        place = others.index(node)
        if place:
            return [
                (self.tokens[others[place - 1].last - 1].end, self.tokens[node.last - 1].end, "")
            ]
        return [(self.start(node.first), self.start(others[1].first), "")]

    @cached_property
    def words(self) -> list[str]:
        """The words that the file returns, without repeats."""
        found = [
            self.tokens[word.first].text
            for node in self.tree.walk()
            for word in self.returned(node)
        ]
        return list(dict.fromkeys(found))

    def returned(self, node: Node) -> Iterator[Node]:
        """Return the words in a statement's return value, or in a value assigned for a later
        return.
        """
        if node.kind not in ("return", "assign", "statement"):
            return
        if node.kind == "statement":
            is_reply = node.parts[0].label in ("reply", "granted")
            values = node.parts[0].parts[1:] if is_reply else ()
        else:
            values = node.parts
        for value in values:
            if value.kind == "call" and value.label == "reply":
                first = value.parts[1]
            elif value.kind == "table" and value.parts:
                first = value.parts[0].parts[-1]
            else:
                first = value
            for word in first.walk() if first.kind in ("and", "or") else (first,):
                if word.kind == "value" and WORD.match(word.label) and word.label not in NO_WORD:
                    yield word

    def mutants(self) -> list[Mutant]:
        """Return all mutants, in the order of the source."""
        found: list[Mutant] = []
        ordinals: Counter[str] = Counter()
        head = self.text.split("\n", 1)[0]
        if head.startswith("#!lua"):
            flagged = head.removesuffix(" flags=allow-oom").removesuffix(",allow-oom")
            edits = [(0, len(head), flagged if flagged != head else f"{head} flags=allow-oom")]
            found.append(Mutant(f"{self.file}:head:flag:oom", self.file, self.changed(edits)))
        for function, statement, (operator, _, edits) in self.changes(self.tree, "main"):
            digest = hashlib.sha1(statement.encode(), usedforsecurity=False).hexdigest()[:6]
            stem = f"{self.file}:{function}:{operator}:{digest}"
            ordinals[stem] += 1
            name = stem if ordinals[stem] == 1 else f"{stem}.{ordinals[stem]}"
            found.append(Mutant(name, self.file, self.changed(edits)))
        return found

    def changed(self, edits: list[tuple[int, int, str]]) -> str:
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def changes(self, block: Node, function: str) -> Iterator[tuple[str, str, Change]]:
        """Return each change within a block: function, the statement's normal text, and edit."""
        for node in block.parts:
            inner = [part for part in node.parts if part.kind == "block"]
            name = node.label if node.kind == "function" else function
            # The parts of a statement beside blocks: the whole statement, or its header.
            head = [part for part in node.parts if part.kind != "block"]
            for part in head:
                said = self.normal(node if not inner else part)
                if part is head[0]:
                    for change in self.of_statement(node):
                        yield function, said, change
                for change in self.of_condition(node, part):
                    yield function, said, change
                for change in self.of_expression(part):
                    yield function, said, change
            if node.kind == "break":
                yield function, "break", ("drop", node, self.put(node, ""))
            for part in inner:
                yield from self.changes(part, name)
        return

    def of_statement(self, node: Node) -> Iterator[Change]:
        if node.kind in ("statement", "assign"):
            yield "drop", node, self.put(node, "")
        for word in self.returned(node):
            others = self.words
            if len(others) > 1:
                following = others[(others.index(word.label) + 1) % len(others)]
                yield "word", word, self.put(word, following)

    def of_condition(self, node: Node, part: Node) -> Iterator[Change]:
        if node.kind not in ("if", "while"):
            return
        yield "never", part, self.put(part, "false")
        if part.kind not in ("and", "or") and node.kind == "if":
            yield "always", part, self.put(part, "true")

    def of_expression(self, root: Node) -> Iterator[Change]:
        places = {id(node.parts[-1]) for node in root.walk() if node.label.endswith("[]")}
        for node in root.walk():
            if node.kind in ("and", "or") and node.parts[-1].label != "nil":
                for part in node.parts:
                    yield "operand", part, self.without(part, node.parts)
            elif node.kind in NEIGHBOURS:
                sign = node.parts[0].last
                yield "compare", node, [(*self.span(sign, sign + 1), NEIGHBOURS[node.kind])]
            elif node.kind in ("+", "-"):
                sign = node.parts[0].last
                yield "swap", node, [(*self.span(sign, sign + 1), OPPOSITES[node.kind])]
            elif node.kind == "unary" and node.label in ("not", "-"):
                yield "negate", node, self.put(node, self.normal(node.parts[0]))
            elif node.kind == "value" and id(node) not in places:
                yield from self.of_value(node)
            elif node.kind == "call":
                yield from self.of_call(node)
            elif node.kind == "table":
                yield from self.of_table(node)

    def of_value(self, node: Node) -> Iterator[Change]:
        if node.label.isdecimal() and int(node.label) < GREATEST:
            yield "number", node, self.put(node, str(int(node.label) + 1))
        elif node.label in OPPOSITES:
            operator = "negate" if node.label in ("true", "false") else "swap"
            yield operator, node, self.put(node, OPPOSITES[node.label])

    def of_call(self, node: Node) -> Iterator[Change]:
        values = node.parts[1:]
        if node.label in ("math.min", "math.max"):
            yield "swap", node.parts[0], self.put(node.parts[0], OPPOSITES[node.label])
            for value in values:
                yield "operand", value, self.without(value, values)
        command = (
            values[0].label.strip("'") if node.label in ("call", "pcall") and values else node.label
        )
        for kinds, step in ((PAIRS, 2), (NAMES, 1)):
            start = kinds.get(command)
            if start is None or (command == node.label) != (command in ("set", "event", "unset")):
                continue
            yield from self.fields(values, start, step)
        if command in ("ZADD", "XX"):
            for value in values:
                if value.label in ("'XX'", "'LT'"):
                    yield "field", value, self.without(value, node.parts[1:])

    def of_table(self, node: Node) -> Iterator[Change]:
        items = node.parts
        names = [
            item.parts[-1].kind == "value" and item.parts[-1].label[0] == "'" for item in items
        ]
        if len(items) >= 4 and len(items) % 2 == 0 and all(names[::2]) and not all(names[1::2]):
            yield from self.fields(items, 0, 2)
        elif len(items) > 1:
            for item in items:
                if item.parts[-1].label != "nil":
                    yield "item", item, self.without(item, items)

    def fields(self, values: tuple[Node, ...], start: int, step: int) -> Iterator[Change]:
        """Leave out one name (and its value), if others are left."""
        for place in range(start, len(values) - step + 1, step):
            name = values[place]
            if name.kind != "value" or not name.label.startswith("'"):
                return
            if len(values) - start > step:
                end = self.tokens[values[place + step - 1].last - 1].end
                yield (
                    "field",
                    name,
                    [(self.tokens[values[place - 1].last - 1].end, end, "")]
                    if place
                    else [(self.start(name.first), self.start(values[step].first), "")],
                )


def sources() -> list[Source]:
    """Return all Lua files."""
    return [Source(file) for file in sorted(FILES)]
