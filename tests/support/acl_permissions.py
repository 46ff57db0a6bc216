"""The permissions that each user of config/redis.acl should have, independent of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Commands of every user that change nothing.
LOOKS = words(
    "exists hexists hget hgetall hkeys hlen hmget hstrlen llen lpos lrange type xread xrevrange zcard zcount zrange zrevrange zrevrank zscore "
    "eval_ro evalsha_ro"
)
#: Commands that concern no key; the last four are open to everybody on every server, logged in or
#: not.
KEYLESS = words("ping time info multi exec auth hello quit reset")
#: Commands that run a script of any kind; the rights of its commands on a key are checked again.
SCRIPTS = frozenset({"eval", "evalsha"})

#: A key of each kind, by its content.
OURS = {
    "run": "perdure:run:r1",
    "memory": "perdure:run:r1:memory",
    "events": "perdure:run:r1:events",
    "artifacts": "perdure:run:r1:artifacts",
    "group": "perdure:run:r1:group/0.1",
    "idem": "perdure:idem:k",
    "topic": "perdure:topic:order:1",
    "hook_key": "perdure:hooks:key",
    "notes": "perdure:notes:user:ada",
    "notes_order": "perdure:notes_order:user:ada",
    "notes_index": "perdure:notes_index",
    "due": "perdure:due",
    "endings": "perdure:endings",
    "follow_ups": "perdure:follow_ups",
    "queues": "perdure:queues",
    "index": "perdure:index:live",
    "submitted": "perdure:submitted:ann",
    "paused": "perdure:paused",
    "list": "perdure.controller",
    "priorities": "perdure.executor\x06\x169",
    "apart": "perdure.controller.flows-0a",
    "line": "perdure:line:controller",
    "workers": "perdure:workers",
    "announcements": "perdure:workers:info",
    "letters": "perdure:dead",
    "figures": "perdure:metrics",
    "figure_history": "perdure:metrics:day:9",
    "tokens": "perdure:tokens",
    "web_key": "perdure:web:key",
    "filters": "perdure:filters:ada",
    "notifications": "perdure:notifications:due:ops",
    "sign_in": "perdure:sign_in:0a1b",
}
#: Keys of other tenants, of Celery's, and such as look like ours.
FOREIGN = (
    "other:run:r1", "other.controller", "perdure", "perdure2:due", "perdurex:run:r1", "xperdure:run:r1", "perdure-2.controller",
    "perdure:", "perdure:run", "perdure:secret", "perdure:duely", "perdure:deadly", "perdure.controllers", "perdure.other",
    "PERDURE:run:r1", "_kombu.binding.celery", "_kombu.binding.perdure.controller", "celery", "unacked", "unacked_index", "",
)  # fmt: skip
SHARED = frozenset(
    {"run", "memory", "events", "artifacts", "group", "due", "queues", "index", "paused", "list"}
)
SEEN = frozenset(
    {
        "workers",
        "announcements",
        "letters",
        "figures",
        "figure_history",
        "notifications",
        "apart",
    }
)
NOTES = frozenset({"notes", "notes_order", "notes_index"})
OF_A_RUN = frozenset({"run", "memory", "events", "artifacts", "group"})


@dataclass(frozen=True)
class Role:
    """A user: the kinds of keys it sees, its own further looks, the kinds it may name to scripts,
    and its writes, by command.
    """

    sees: frozenset[str]
    looks: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    writes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    keyless: frozenset[str] = frozenset()

    @property
    def commands(self) -> frozenset[str]:
        """All it has."""
        return (
            KEYLESS
            | self.keyless
            | LOOKS
            | self.looks
            | (SCRIPTS if self.scripts else frozenset())
            | frozenset(self.writes)
        )

    def may(self, command: str, kind: str | None) -> bool:
        """Return whether the command is for this user on a key of this kind (None: not one of
        ours).
        """
        if command in LOOKS | self.looks:
            return kind in self.sees
        return kind in (self.scripts if command in SCRIPTS else self.writes.get(command, ()))


def by_command(kinds: Mapping[frozenset[str], str]) -> dict[str, frozenset[str]]:
    """Return the keys by command, from ``{kinds of keys: commands}``."""
    found: dict[str, frozenset[str]] = {}
    for keys, commands in kinds.items():
        for command in commands.split():
            found[command] = found.get(command, frozenset()) | keys
    return found


def only(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


#: The commands that wait for replicas (``wait_replicas``): a publication on a channel of ours, then
#: WAIT.
WAITS = frozenset({"publish", "wait"})
#: Writes of submit, stop, resume and retry.
MOVES = {
    OF_A_RUN: "hset hdel xadd persist",
    only("idem"): "get set persist",
    only("group"): "pexpireat",
    only("topic"): "hset hdel pexpireat persist",
    only("due", "endings", "follow_ups", "index", "submitted"): "zadd zrem",
    only("queues"): "hincrby",
    only("list"): "lpush rpush",
    only("filters"): "hset hdel",
}
#: Writes to notes by workers and administrators. No other user sees notes.
WRITES_NOTES = {
    only("notes"): "hset hdel",
    only("notes_order", "notes_index"): "zadd zrem",
}
ROLES = {
    "producer": Role(
        sees=SHARED | SEEN | {"endings", "follow_ups", "idem", "topic", "submitted", "filters"},
        scripts=SHARED | {"endings", "follow_ups", "idem", "topic", "submitted"},
        writes=by_command(MOVES),
        keyless=WAITS,
    ),
    "worker": Role(
        sees=SHARED | SEEN | NOTES | {"endings", "follow_ups", "idem", "topic", "hook_key", "line"},
        looks=only("zrangebyscore"),
        scripts=SHARED
        | NOTES
        | {"endings", "follow_ups", "idem", "topic", "hook_key", "line", "apart"},
        writes=by_command(
            {
                OF_A_RUN: "hset hdel xadd rpush ltrim pexpireat",
                **WRITES_NOTES,
                only("idem"): "get pexpireat",
                only("topic"): "hset hdel pexpireat persist",
                only("hook_key"): "get set",
                only("due", "endings", "follow_ups", "index", "line"): "zadd zrem",
                only("queues"): "hset hincrby",
                only("list", "priorities", "apart"): "lpush rpush rpop brpop",
                only("apart"): "lrem",
                only("workers"): "zadd zrem",
                only("announcements"): "hset hdel",
                only("letters"): "lpush ltrim",
                only("notifications"): "hset hdel zadd zrem set get del",
                only("sign_in"): "set",
                only("figures"): "hincrby hincrbyfloat",
                only("figure_history"): "hincrby hincrbyfloat pexpire",
            }
        ),
    ),
    "reader": Role(sees=SHARED | SEEN | {"submitted", "filters"}),
    "admin": Role(
        sees=SHARED
        | SEEN
        | NOTES
        | {"endings", "follow_ups", "idem", "topic", "submitted", "filters", "tokens", "web_key"},
        looks=only("zscan"),
        scripts=SHARED | NOTES | {"endings", "follow_ups", "idem", "topic", "submitted"},
        writes=by_command(
            {
                **MOVES,
                only("paused"): "hsetnx hdel",
                **WRITES_NOTES,
                OF_A_RUN | {"idem", "letters", "notes", "notes_order"}: "del",
                only("notifications"): "hset hdel zadd zrem",
                only("tokens"): "hset hdel",
                only("web_key"): "get set del",
                only("sign_in"): "get del",
            }
        ),
        keyless=WAITS,
    ),
}

#: Each command with a key, as it is sent.
EXAMPLES = {
    "exists": "exists KEY", "hexists": "hexists KEY f", "hget": "hget KEY f", "hgetall": "hgetall KEY", "hmget": "hmget KEY f",
    "hstrlen": "hstrlen KEY f",
    "llen": "llen KEY", "lpos": "lpos KEY x", "lrange": "lrange KEY 0 -1", "type": "type KEY", "xread": "xread STREAMS KEY 0",
    "xrevrange": "xrevrange KEY + -",
    "zcard": "zcard KEY", "zcount": "zcount KEY 0 1", "zrange": "zrange KEY 0 1", "zrevrange": "zrevrange KEY 0 1",
    "zrevrank": "zrevrank KEY x", "zscore": "zscore KEY x",
    "eval_ro": "eval_ro return 1 KEY", "evalsha_ro": "evalsha_ro sha 1 KEY", "eval": "eval return 1 KEY", "evalsha": "evalsha sha 1 KEY",
    "hdel": "hdel KEY f", "hincrby": "hincrby KEY f 1", "hincrbyfloat": "hincrbyfloat KEY f 1", "hset": "hset KEY f 1",
    "hsetnx": "hsetnx KEY f 1", "hkeys": "hkeys KEY", "hlen": "hlen KEY",
    "lpush": "lpush KEY x", "rpush": "rpush KEY x", "ltrim": "ltrim KEY 0 1", "brpop": "brpop KEY 1",
    "rpop": "rpop KEY", "lrem": "lrem KEY -1 x", "xadd": "xadd KEY * f 1",
    "zadd": "zadd KEY 1 x", "zrem": "zrem KEY x", "zrangebyscore": "zrangebyscore KEY 0 1", "zremrangebyscore": "zremrangebyscore KEY 0 1",
    "zscan": "zscan KEY 0", "get": "get KEY", "set": "set KEY 1", "del": "del KEY", "persist": "persist KEY",
    "pexpireat": "pexpireat KEY 9", "pexpire": "pexpire KEY 9",
}  # fmt: skip


def example(command: str, key: str) -> list[str]:
    """Return the command on this key."""
    return [key if word == "KEY" else word for word in EXAMPLES[command].split()]
