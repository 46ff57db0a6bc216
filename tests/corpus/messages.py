"""The corpus: messages that are none of a round, each for another reason, and the expected fate of
each.

An entry makes its message from a good one. ``why`` is the reason in its dead letter; without it,
the message has the form of a round's, and is let through: then it names no round that is due, and
changes nothing.
"""

from __future__ import annotations

from tests.corpus.contents import arguments, headers, tables, tasks
from tests.corpus.entry import AMQP, BOTH, LIST, Entry
from tests.corpus.wholes import content_types, envelopes, parts

__all__ = ["AMQP", "BOTH", "LIST", "MESSAGES", "Entry", "carried_by"]


def hints() -> dict[str, Entry]:
    """Return messages of a round's form without a due round."""
    return {
        "no such run": Entry(lambda good: good),
        "no such run, far on": Entry(lambda good: good.with_args("nobody", 2**53 - 1, 2**53 - 1)),
        "a header that nobody knows": Entry(
            lambda good: good.with_headers(made_up=[1, 2], __class__="x")
        ),
        "a compression that it has not": Entry(lambda good: good.with_headers(compression="zlib")),
        "half a surrogate": Entry(
            lambda good: good.with_headers(origin="\ud800", argsrepr="\udfff"), on=frozenset({LIST})
        ),
        "control characters": Entry(
            lambda good: good.with_headers(origin="\x1b[2J\0\r\n", argsrepr="%s %(x)d {}")
        ),
        "a reply queue": Entry(
            lambda good: good.with_properties(reply_to="evil").with_headers(ignore_result=False)
        ),
        "a priority beyond counting": Entry(
            lambda good: good.with_properties(priority=10**300), on=frozenset({LIST})
        ),
        "a delivery info of another place": Entry(
            lambda good: good.with_properties(
                delivery_info={"exchange": "evil", "routing_key": "evil"}
            ),
            on=frozenset({LIST}),
        ),
        "parts that nobody knows": Entry(
            lambda good: good.with_(envelope={"redelivered": [1], "x": {"y": 1}}),
            on=frozenset({LIST}),
        ),
        "properties that nobody knows": Entry(
            lambda good: good.with_properties(expiration="0", x_death=[{}]), on=frozenset({LIST})
        ),
    }


#: All messages, by name.
MESSAGES: dict[str, Entry] = {
    **envelopes(),
    **parts(),
    **content_types(),
    **headers(),
    **tasks(),
    **arguments(),
    **tables(),
    **hints(),
}


def carried_by(transport: str) -> dict[str, Entry]:
    """Return the messages that this transport can carry."""
    return {name: entry for name, entry in MESSAGES.items() if transport in entry.on}
