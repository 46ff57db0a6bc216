"""Waiting: a run that waits for a person, what it asks, and how to answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from worker.run import Run, RunStatus

#: What came to be told later than the rest.
LATER = ("key", "began", "worker")
Kind = Literal["approval", "in_doubt", "budget", "question", "pause"]


@dataclass(frozen=True)
class Waiting:
    """One run that waits for a person, as it was when it was read.

    Attributes:
        id: of the interrupt; an answer that names it answers no other question.
        since: when it began to wait.
        kind: ``approval`` (of a command), ``in_doubt`` (a command that may have been carried out), ``budget`` (something is spent),
            ``question`` (a node asks), ``pause`` (before or after a node: it waits for a word to go on, and for no answer).
        question: a sentence for the person asked.
        data: JSON shown beside it.
        deadline: when ``default`` answers; None: never.
        command, args, digest: of an approval, exactly what would be carried out, and the digest that the approval is bound to;
            of a command in doubt, the command and its arguments.
        key, began, worker: of a command in doubt, its idempotency key, and when and by which worker the attempt began that nobody knows
            the end of; None where it is not known.
    """

    id: str
    run_id: str
    flow: str
    goal: str
    since: datetime
    kind: Kind
    question: str
    data: Mapping[str, Any] | None = None
    deadline: datetime | None = None
    default: Any = None
    command: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    key: str | None = None
    began: datetime | None = None
    worker: str | None = None

    @classmethod
    def of(cls, run: Run) -> Waiting | None:
        """What the run waits for; of a stopped one, what it will ask again. None where it asks nothing."""
        asked = run.details.get("interrupt")
        if run.status not in (RunStatus.INTERRUPTED, RunStatus.STOPPED) or asked is None or asked["answered"]:
            return None
        data = asked["data"] if isinstance(asked["data"], dict) else None
        kind = _kind(asked["kind"], data or {})
        about = (data or {})[kind] if kind in ("approval", "in_doubt") else {}
        args = about.get("args")
        return cls(
            id=asked["id"],
            run_id=run.id,
            flow=run.flow,
            goal=run.goal,
            since=run.updated_at,
            kind=kind,
            question=str(asked["reason"]),
            data=data,
            deadline=datetime.fromisoformat(asked["deadline"]) if asked["deadline"] else None,
            default=asked["default"],
            command=about.get("command"),
            args=args if isinstance(args, dict) else {},
            digest=about.get("digest"),
            key=_text(about.get("key")),
            began=_moment(about.get("began")),
            worker=_text(about.get("worker")),
        )

    @property
    def approvers(self) -> str:
        """Of an approval, who may give it: ``anyone``, or ``others`` than the run's submitter."""
        about = (self.data or {}).get("approval")
        return str(about.get("approvers", "anyone")) if isinstance(about, dict) else "anyone"

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways to answer, as options of ``holdfast resume RUN``; '' is none."""
        match self.kind:
            case "approval":
                return (f"--approve --interrupt {self.id}", "--refuse 'why'", f"--edit '{{its arguments, changed}}' --interrupt {self.id}")
            case "in_doubt":
                return (
                    "--answer '\"retry\"'",
                    "--answer '{\"result\": what it came to}'",
                    '--answer \'{"tell": "words for the controller"}\'',
                )
            case "budget":
                return (f"--add {(self.data or {})['budget']}={self.as_much_again}",)
            case "question":
                return ("--answer '\"your answer\"'",)
            case "pause":
                return ("",)

    @property
    def as_much_again(self) -> str:
        """Of a budget, an amount that would do: as much as the limit, or (where far more was spent than that) as was spent."""
        limit, spent = ((self.data or {})[name] for name in ("limit", "spent"))
        much = limit if 2 * limit > spent else spent
        return str(int(much)) if isinstance(much, int) or much.is_integer() else str(much)

    def how(self, program: str = "holdfast") -> tuple[str, ...]:
        """The commands that answer it, one of which is to be given."""
        return tuple(f"{program} resume {self.run_id} {way}".rstrip() for way in self.ways)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Waiting:
        """What ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        # An earlier version of a control room does not tell these.
        known: dict[str, Any] = {each.name: data.get(each.name) if each.name in LATER else data[each.name] for each in fields(cls)}
        times = {name: known[name] and datetime.fromisoformat(known[name]) for name in ("since", "deadline", "began")}
        return cls(**{**known, **times})

    def to_dict(self) -> dict[str, Any]:
        """It as JSON data."""
        return {
            "id": self.id,
            "run_id": self.run_id,
            "flow": self.flow,
            "goal": self.goal,
            "since": self.since.isoformat(),
            "kind": self.kind,
            "question": self.question,
            "data": self.data,
            "deadline": self.deadline.isoformat() if self.deadline else None,
            "default": self.default,
            "command": self.command,
            "args": dict(self.args),
            "digest": self.digest,
            "key": self.key,
            "began": self.began.isoformat() if self.began else None,
            "worker": self.worker,
            "how": list(self.how()),
        }


def _kind(kind: str | None, data: Mapping[str, Any]) -> Kind:
    """Of what kind it is: the engine's own pauses by what it wrote, those of nodes by their data."""
    if kind == "budget" and isinstance(data.get("budget"), str) and all(_is_number(data.get(name)) for name in ("limit", "spent")):
        return "budget"
    if kind != "node":
        return "pause"
    if isinstance(data.get("approval"), dict):
        return "approval"
    return "in_doubt" if isinstance(data.get("in_doubt"), dict) else "question"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _moment(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
