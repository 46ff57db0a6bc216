"""A run that waits for a person: its question, and how to answer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from perdure.worker.domain.document import Document
from perdure.worker.domain.run import Run, RunStatus

Kind = Literal["approval", "in_doubt", "budget", "question", "pause"]
LISTENERS = ("controller", "workflow", "graph", "model")


#: Placeholders for an answer in a command, by the JSON type that the question expects.
EXAMPLES = {
    "integer": "7",
    "number": "7.5",
    "boolean": "true",
    "array": '["a list"]',
    "object": '{"a key": "a value"}',
}


@dataclass(frozen=True)
class PendingInterrupt(Document):
    """One run that waits for a person, as it was when it was read."""

    id: str
    """Id of the interrupt. An answer that names it applies to no other question."""
    run_id: str
    """The run that waits."""
    flow: str
    """The run's flow."""
    goal: str
    """The run's goal."""
    since: datetime
    """When the run began to wait."""
    kind: Kind
    """``approval`` (of a command), ``in_doubt`` (a command may have been executed), ``budget`` (a
    limit is used up), ``question`` (a node asks), or ``pause`` (before or after a node: it needs
    permission to continue, and no answer).
    """
    question: str
    """Sentence for the person."""
    data: Mapping[str, Any] | None = None
    """JSON shown beside the question."""
    deadline: datetime | None = None
    """When ``default`` is taken as the answer. Not set if there is no time limit."""
    default: Any = None
    """The answer that is taken at the deadline."""
    command: str | None = None
    """For an approval, exactly the command that would be executed.

    For a command in doubt, the command that may have been executed.
    """
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of ``command``."""
    digest: str | None = None
    """For an approval: the digest that it is bound to."""
    key: str | None = None
    """For a command in doubt: its idempotency key.

    With it, the other service may know whether the command has happened.
    """
    began: datetime | None = None
    """For a command in doubt: when the unfinished attempt began. Not set if unknown."""
    worker: str | None = None
    """For a command in doubt: the worker that was lost. Not set if unknown."""
    root: str | None = None
    """For a child run: the run without parent at the top of its tree."""
    root_flow: str | None = None
    """The flow of ``root``, in an inbox. Not set if that run was deleted."""
    title: str | None = None
    """The run's goal, or else its inputs, on a line for people: ``city=Oslo days=3``."""

    _members: ClassVar[tuple[str, ...]] = (
        "id", "run_id", "flow", "goal", "since", "kind", "question", "data", "deadline", "default",
        "command", "args", "digest", "key", "began", "worker", "root", "root_flow", "title",
        "how",
    )  # fmt: skip
    #: Servers of earlier releases do not send them.
    _later: ClassVar[tuple[str, ...]] = ("key", "began", "worker", "root", "root_flow", "title")

    @classmethod
    def of(cls, run: Run) -> PendingInterrupt | None:
        """Return the pending interrupt of a run, or None if the run waits for no person.

        For a stopped run, return the interrupt that waits again after the run is resumed.
        """
        interrupt = run.details.get("interrupt")
        if (
            run.status not in (RunStatus.INTERRUPTED, RunStatus.STOPPED)
            or interrupt is None
            or interrupt["answered"]
        ):
            return None
        data = interrupt["data"] if isinstance(interrupt["data"], dict) else None
        kind = _kind(interrupt["kind"], data or {})
        command_facts = (data or {})[kind] if kind in ("approval", "in_doubt") else {}
        args = command_facts.get("args")
        return cls(
            id=interrupt["id"],
            run_id=run.id,
            flow=run.flow,
            goal=run.goal,
            since=run.updated_at,
            kind=kind,
            question=str(interrupt["reason"]),
            data=data,
            deadline=datetime.fromisoformat(interrupt["deadline"])
            if interrupt["deadline"]
            else None,
            default=interrupt["default"],
            command=command_facts.get("command"),
            args=args if isinstance(args, dict) else {},
            digest=command_facts.get("digest"),
            key=_text(command_facts.get("key")),
            began=_moment(command_facts.get("began")),
            worker=_text(command_facts.get("worker")),
            root=run.details.get("root"),
            title=run.title,
        )

    @property
    def heading(self) -> str:
        """The run's title. A server of an earlier release sends none: then it is the goal."""
        return self.goal if self.title is None else self.title

    @property
    def approvers(self) -> str:
        """Who may approve the command: ``anyone``, or ``others`` (not the run's submitter)."""
        return str(self._facts.get("approvers", "anyone"))

    @property
    def shown_data(self) -> Any:
        """The JSON beside the question, without the entries that a workflow adds for itself."""
        own = ("asks", "asks_of")
        data = {name: value for name, value in (self.data or {}).items() if name not in own}
        return data["data"] if data.keys() == {"data"} else data

    @property
    def listener(self) -> str:
        """The receiver of the text that a person sends about a command: one of ``LISTENERS``.

        It is ``controller`` if the interrupt names none.
        """
        told = self._facts.get("listener")
        return told if told in LISTENERS else "controller"

    @property
    def may_be_edited(self) -> bool:
        """Whether a person may change the arguments of the command that they approve."""
        return self._facts.get("fixed") is not True

    @property
    def _facts(self) -> Mapping[str, Any]:
        facts = (self.data or {}).get(self.kind)
        return facts if isinstance(facts, dict) else {}

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways to answer the run's question, as options of ``perdure resume RUN``.

        An empty text means that no option is needed.
        """
        match self.kind:
            case "approval":
                edit = f"--edit '{{its arguments, changed}}' --interrupt {self.id}"
                return (
                    f"--approve --interrupt {self.id}",
                    "--refuse 'why'",
                    *((edit,) if self.may_be_edited else ()),
                )
            case "in_doubt":
                return (
                    "--answer '\"retry\"'",
                    "--answer '{\"result\": what it came to}'",
                    f'--answer \'{{"tell": "words for the {self.listener}"}}\'',
                )
            case "budget":
                return (f"--add {(self.data or {})['budget']}={self.as_much_again}",)
            case "question":
                return (f"--answer '{self._example_of_answer}'",)
            case "pause":
                return ("",)

    @property
    def _example_of_answer(self) -> str:
        """Example of an answer as JSON text, of the type that the question expects."""
        expects = (self.data or {}).get("expects")
        kind = expects.get("type") if isinstance(expects, dict) else None
        return EXAMPLES.get(str(kind), '"your answer"')

    @property
    def as_much_again(self) -> str:
        """For a used-up budget, an amount as text that suffices if it is added to the limit.

        It is the limit itself. If the run spent at least twice the limit, it is the spent amount.
        """
        limit, spent = ((self.data or {})[name] for name in ("limit", "spent"))
        amount = limit if 2 * limit > spent else spent
        return str(int(amount)) if isinstance(amount, int) or amount.is_integer() else str(amount)

    def how(self, program: str = "perdure") -> tuple[str, ...]:
        """Return the commands that answer the run. Use one of them.

        Args:
            program: The beginning of each command, such as ``celery -A APP perdure``.
        """
        return tuple(f"{program} resume {self.run_id} {way}".rstrip() for way in self.ways)

    def how_in_one_line(self, program: str = "perdure") -> str:
        """Return the first command line of ``how``, or all of them if a flow's command is in doubt.

        The first command line then executes the flow's command again, which can do harm. Alone it
        would look like advice.
        """
        first = self.how(program)[0]
        return " or ".join((first, *self.ways[1:])) if self.kind == "in_doubt" else first


#: Earlier name of ``PendingInterrupt``, for one release.
Waiting = PendingInterrupt


@dataclass(frozen=True)
class Inbox(Document):
    """One page of runs that wait for people, the longest wait first."""

    waiting: list[PendingInterrupt]
    """The interrupts for which the runs wait."""
    cursor: str | None = None
    """Cursor of the next page. Not set at the end."""
    damaged: tuple[str, ...] = ()
    """Ids of runs on this page that cannot be read."""

    def __iter__(self) -> Iterator[PendingInterrupt]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)


def _kind(kind: str | None, data: Mapping[str, Any]) -> Kind:
    """Return the kind of a pending interrupt for clients.

    Args:
        kind: The stored kind: ``node`` if a node asked for the interrupt, else ``before``,
            ``after`` or ``budget``.
        data: The interrupt's data. For an interrupt of a node, they decide on the result.
    """
    if (
        kind == "budget"
        and isinstance(data.get("budget"), str)
        and all(_is_number(data.get(name)) for name in ("limit", "spent"))
    ):
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
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
