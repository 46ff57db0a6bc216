"""Forms that MCP clients show to a person (elicitation).

The answers in these forms are read here too. A form of MCP has flat fields only. A question that
needs other fields is answered with the tool ``answer``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.presentation.questions import attempt, or_else, question_lines


class PersonsAnswer(NamedTuple):
    """A person's answer to a run's question, or amounts to add to its budgets."""

    answer: Any = None
    add: dict[str, float] | None = None


def form_of(waiting: PendingInterrupt) -> ElicitRequest:
    """Return the MCP request that shows a question to a person."""
    facts = [f"{name}: {value}" for name, value in attempt(waiting)]
    otherwise = or_else(waiting)
    question, *about = question_lines(waiting)
    lines = [
        f"{waiting.flow}: {question}",
        *about,
        *facts,
        *([f"Without an answer: {otherwise}"] if otherwise else []),
    ]
    return ElicitRequest(
        params=ElicitRequestFormParams(
            message="\n".join(lines), requested_schema=_schema_of(waiting)
        )
    )


def answer_of(waiting: PendingInterrupt, result: ElicitResult) -> PersonsAnswer | None:
    """Return a person's answer from a form that the MCP client showed.

    Returns:
        None if the person has not decided. A person who declines an approval refuses the command.
    """
    filled = result.content or {}
    if result.action == "decline" and waiting.kind == "approval":
        return PersonsAnswer("refuse")
    if result.action != "accept":
        return None
    text = str(filled.get("text") or "").strip()
    match waiting.kind, filled.get("decision"):
        case "approval", "refuse":
            return PersonsAnswer({"refuse": text} if text else "refuse")
        case "in_doubt", "result" | "tell" as way:
            return PersonsAnswer({way: text})
        case "approval" | "in_doubt", decision:
            return PersonsAnswer(decision)
        case "budget", _:
            return PersonsAnswer(add={str((waiting.data or {})["budget"]): filled.get("amount")})  # type: ignore[dict-item]
        case "question", _:
            return PersonsAnswer(filled.get("answer"))
    return PersonsAnswer() if filled.get("continue") is True else None


def _schema_of(waiting: PendingInterrupt) -> dict[str, Any]:
    match waiting.kind:
        case "approval":
            fields = {
                "decision": _choice("approve", "refuse"),
                "text": _text("Why", "If you refuse it: why."),
            }
        case "in_doubt":
            fields = {
                "decision": _choice("retry", "result", "tell"),
                "text": _text(
                    "Result or words",
                    "retry: it has not happened. result: it has, with this result. tell: words "
                    f"for the {waiting.listener}.",
                ),
            }
        case "budget":
            budget = str((waiting.data or {})["budget"])
            fields = {
                "amount": {
                    "type": "number",
                    "title": f"More {budget}",
                    "description": f"Enough to go on: {waiting.as_much_again}.",
                }
            }
        case "question":
            fields = {"answer": _text("Answer", "Your answer.")}
        case "pause":
            fields = {
                "continue": {
                    "type": "boolean",
                    "title": "Continue",
                    "description": "Whether the run may go on.",
                }
            }
    return {"type": "object", "properties": fields, "required": [next(iter(fields))]}


def _choice(*choices: str) -> dict[str, Any]:
    return {"type": "string", "title": "Decision", "enum": list(choices)}


def _text(title: str, description: str) -> dict[str, Any]:
    return {"type": "string", "title": title, "description": description}
