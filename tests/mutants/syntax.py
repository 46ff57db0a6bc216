"""A parser of the Lua that the scripts are written in: tokens with their positions, and a tree over
them.

It reads Lua 5.1 without long strings, block comments, ``repeat`` and ``goto``: no script has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|\A\#![^\n]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])""",
    re.VERBOSE,
)
KEYWORDS = frozenset(
    [
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
        "return",
        "then",
        "true",
        "while",
    ]
)
#: Binary operators from the loosest to the tightest. The last two levels are right-associative.
LEVELS = (
    ("or",),
    ("and",),
    ("<", ">", "<=", ">=", "~=", "=="),
    ("..",),
    ("+", "-"),
    ("*", "/", "%"),
)
UNARY = ("not", "-", "#")
ENDS_OF_BLOCKS = ("end", "else", "elseif", "")


class LuaSyntaxError(Exception):
    """The source is not Lua as this parser knows it."""


class Token(NamedTuple):
    """A word of the source.

    Attributes:
        kind: name, keyword, number, text or sign.
        text: as it is written.
        start, end: its positions in the source.
    """

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the tree.

    Attributes:
        kind: of statements local, assign, call, if, while, for, function, do, return and break. Of
            expressions the operator of a binary one, unary, call, name, value, table, function and
            group. Also block, item (of a table) and names.
        first, last: its tokens, the last one excluded.
        parts: its children, in the order of the source.
        label: the name of a function, of a called function, or of a table's item.
    """

    kind: str
    first: int
    last: int
    parts: tuple[Node, ...] = ()
    label: str = ""

    def walk(self) -> Iterator[Node]:
        """Return this node and all below it, in the order of the source."""
        yield self
        for part in self.parts:
            yield from part.walk()


def tokens_of(source: str) -> list[Token]:
    """Return a source's tokens, without blanks and comments."""
    found, place = [], 0
    while place < len(source):
        match = TOKEN.match(source, place)
        if match is None:
            line = source.count("\n", 0, place) + 1
            raise LuaSyntaxError(
                f"line {line}: expected a token, came {source[place : place + 20]!r}"
            )
        kind = match.lastgroup or ""
        if kind == "name" and match[0] in KEYWORDS:
            kind = "keyword"
        if kind != "blank":
            found.append(Token(kind, match[0], place, match.end()))
        place = match.end()
    return found


class Parser:
    """A recursive descent through the tokens of one source."""

    def __init__(self, source: str) -> None:
        self.source, self.tokens, self.place = source, tokens_of(source), 0

    def chunk(self) -> Node:
        """Return the whole source as a block."""
        block = self.block()
        if self.place < len(self.tokens):
            raise self.error("the end of the file")
        return block

    # Tokens.

    @property
    def ahead(self) -> str:
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    @property
    def kind(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def take(self, text: str = "") -> str:
        """Return the next token's text, and move past it."""
        taken = self.ahead
        if not taken or (text and taken != text):
            raise self.error(text or "a token")
        self.place += 1
        return taken

    def skip(self, text: str) -> bool:
        """Move past the next token if it is this one."""
        if self.ahead != text or self.kind == "text":
            return False
        self.place += 1
        return True

    def error(self, expected: str) -> LuaSyntaxError:
        start = self.tokens[min(self.place, len(self.tokens) - 1)].start
        line = self.source.count("\n", 0, start) + 1
        return LuaSyntaxError(f"line {line}: expected {expected}, came {self.ahead!r}")

    def node(self, kind: str, first: int, *parts: Node, label: str = "") -> Node:
        return Node(kind, first, self.place, parts, label)

    # Statements.

    def block(self) -> Node:
        first, statements = self.place, []
        while self.ahead not in ENDS_OF_BLOCKS:
            statements.append(self.statement())
            self.skip(";")
        return self.node("block", first, *statements)

    def statement(self) -> Node:
        first = self.place
        match self.ahead:
            case "local":
                return self.local()
            case "if":
                return self.condition()
            case "for":
                return self.loop()
            case "while":
                self.take()
                test = self.expression()
                self.take("do")
                body = self.block()
                self.take("end")
                return self.node("while", first, test, body)
            case "do":
                self.take()
                body = self.block()
                self.take("end")
                return self.node("do", first, body)
            case "return":
                self.take()
                values = [] if self.ahead in (*ENDS_OF_BLOCKS, ";") else self.expressions()
                return self.node("return", first, *values)
            case "break":
                self.take()
                return self.node("break", first)
        targets = [self.suffixed()]
        while self.skip(","):
            targets.append(self.suffixed())
        if self.skip("="):
            names = Node("names", first, targets[-1].last, tuple(targets))
            return self.node("assign", first, names, *self.expressions())
        if targets[0].kind != "call":
            raise self.error("a call or an assignment")
        return self.node("statement", first, targets[0])

    def local(self) -> Node:
        first = self.place
        self.take("local")
        if self.skip("function"):
            name = self.take()
            return self.node("function", first, self.body(), label=name)
        self.take()
        while self.skip(","):
            self.take()
        return self.node("local", first, *(self.expressions() if self.skip("=") else ()))

    def condition(self) -> Node:
        first, parts = self.place, []
        self.take("if")
        parts.append(self.expression())
        self.take("then")
        parts.append(self.block())
        while self.ahead != "end":
            if self.skip("elseif"):
                parts.append(self.expression())
                self.take("then")
            else:
                self.take("else")
            parts.append(self.block())
        self.take("end")
        return self.node("if", first, *parts)

    def loop(self) -> Node:
        first = self.place
        self.take("for")
        self.take()
        while self.skip(","):
            self.take()
        if not self.skip("="):
            self.take("in")
        header = self.expressions()
        self.take("do")
        body = self.block()
        self.take("end")
        return self.node("for", first, *header, body)

    # Expressions.

    def expressions(self) -> list[Node]:
        found = [self.expression()]
        while self.skip(","):
            found.append(self.expression())
        return found

    def expression(self, level: int = 0) -> Node:
        first = self.place
        if level == len(LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        operands, sign = [left], self.ahead
        while self.ahead in LEVELS[level] and self.kind != "text":
            sign = self.take()
            operands.append(self.expression(level + 1))
            if sign not in ("and", "or", ".."):
                operands = [self.node(sign, first, *operands)]
        return operands[0] if len(operands) == 1 else self.node(sign, first, *operands)

    def unary(self) -> Node:
        first = self.place
        if self.ahead in UNARY and self.kind != "text":
            sign = self.take()
            return self.node("unary", first, self.unary(), label=sign)
        base = self.primary()
        if self.skip("^"):
            return self.node("^", first, base, self.unary())
        return base

    def primary(self) -> Node:
        first = self.place
        if self.kind in ("number", "text") or self.ahead in ("nil", "true", "false", "..."):
            return self.node("value", first, label=self.take())
        if self.skip("function"):
            return self.node("function", first, self.body(), label="")
        if self.ahead == "{":
            return self.table()
        return self.suffixed()

    def suffixed(self) -> Node:
        first = self.place
        if self.skip("("):
            inner = self.expression()
            self.take(")")
            node = self.node("group", first, inner)
        elif self.kind == "name":
            node = self.node("name", first, label=self.take())
        else:
            raise self.error("a name")
        while True:
            if self.skip("."):
                name = self.take()
                node = self.node("name", first, node, label=f"{node.label}.{name}")
            elif self.skip("["):
                index = self.expression()
                self.take("]")
                node = self.node("name", first, node, index, label=f"{node.label}[]")
            elif self.skip("("):
                values = [] if self.ahead == ")" else self.expressions()
                self.take(")")
                node = self.node("call", first, node, *values, label=node.label)
            else:
                return node

    def table(self) -> Node:
        first, items = self.place, []
        self.take("{")
        while self.ahead != "}":
            start, label = self.place, ""
            if self.skip("["):
                key = [self.expression()]
                self.take("]")
                label = "[]"
                self.take("=")
            elif self.kind == "name" and self.tokens[self.place + 1].text == "=":
                key, label = [], self.take()
                self.take("=")
            else:
                key = []
            items.append(self.node("item", start, *key, self.expression(), label=label))
            if not self.skip(",") and not self.skip(";"):
                break
        self.take("}")
        return self.node("table", first, *items)

    def body(self) -> Node:
        self.take("(")
        while self.ahead != ")":
            self.take()
        self.take(")")
        block = self.block()
        self.take("end")
        return block
