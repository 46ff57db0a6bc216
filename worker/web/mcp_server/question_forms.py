"""Forms that MCP clients show to a person (elicitation).

The answers in these forms are read here too. A form of MCP has flat fields only. A person gives an
answer that does not fit into them with the tool ``answer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.presentation.questions import attempt, or_else, question_lines

#: Python types of a form's values, by their JSON type. A bool is an int in Python, and no number in
#: JSON.
TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
}


class PersonsAnswer(NamedTuple):
    """A person's answer to a run's question.

    Attributes:
        answer: The answer as JSON data. None if the question is about a budget, or is a pause.
        add: Amounts to add to the run's budgets, by name. None if the question is about no budget.
    """

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
    """Return a person's answer from a filled form.

    A person who declines the form of an approval refuses the command.

    Returns:
        None if the person has not decided: the form was declined or cancelled, lacks a required
        field, or does not permit a paused run to go on.

    Raises:
        InvalidInput: The content does not fit the form.
    """
    if result.action == "decline" and waiting.kind == "approval":
        return PersonsAnswer("refuse")
    filled = {name: value for name, value in (result.content or {}).items() if value is not None}
    schema = _schema_of(waiting)
    if result.action != "accept" or not filled.keys() >= set(schema["required"]):
        return None
    _check_fits(waiting, schema, filled)
    text = str(filled.get("text", "")).strip()
    match waiting.kind, filled.get("decision"):
        case "approval", "refuse":
            return PersonsAnswer({"refuse": text} if text else "refuse")
        case "in_doubt", "result" | "tell" as way:
            if "text" not in filled:
                raise _unfit(waiting, f"field 'text' is missing, which {way!r} needs")
            return PersonsAnswer({way: text})
        case "approval" | "in_doubt", decision:
            return PersonsAnswer(decision)
        case "budget", _:
            amount = filled["amount"]
            assert isinstance(amount, int | float)  # _check_fits has refused other values
            return PersonsAnswer(add={str((waiting.data or {})["budget"]): amount})
        case "question", _:
            return PersonsAnswer(filled["answer"])
    return PersonsAnswer() if filled["continue"] is True else None


def may_be_answer(stored: Any, result: ElicitResult) -> bool:
    """Return whether a filled form may mean a stored answer.

    The question of the form is no longer open, so its kind is not known, and each meaning of the
    form's fields is compared.

    Args:
        stored: The stored answer. For null (None), the result is False: no form has this answer.
        result: The filled form.
    """
    filled = result.content or {}
    decision = "refuse" if result.action == "decline" else filled.get("decision")
    worded = {str(decision): str(filled.get("text") or "").strip()}
    return stored is not None and stored in (filled.get("answer"), decision, worded)


def _check_fits(
    waiting: PendingInterrupt, schema: dict[str, Any], filled: Mapping[str, Any]
) -> None:
    """Raise InvalidInput if a form's value is not valid.

    A value is valid if it fits the form's JSON schema. Missing values are not checked.
    """
    for name, field in schema["properties"].items():
        if name not in filled:
            continue
        value = filled[name]
        if isinstance(value, bool) != (field["type"] == "boolean") or not isinstance(
            value, TYPES[field["type"]]
        ):
            raise _unfit(waiting, f"field {name!r} is {value!r:.100}; expected a {field['type']}")
        choices = field.get("enum", (value,))
        if value not in choices:
            expected = " or ".join(map(repr, choices))
            raise _unfit(waiting, f"field {name!r} is {value!r:.100}; expected {expected}")


def _unfit(waiting: PendingInterrupt, why: str) -> InvalidInput:
    return InvalidInput(
        f"run {waiting.run_id}: the content of the form does not answer question {waiting.id}: "
        f"{why}"
    )


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
