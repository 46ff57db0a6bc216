"""Whether what a run's hash keeps as the message of its round is one. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from worker.record import SCHEMA


def unplayable(fields: Mapping[str, str], run_id: str) -> str | None:
    """Why no worker can ever claim by the stored message of this run; None where one can, or where that is not ours to say.

    Only what is stored is judged: no message that reaches a worker, whoever sent it, can make a run look damaged.
    """
    from worker.guard.sifting import Malformed, stored_round  # only workers need so much of kombu

    schema, message = fields.get("schema", ""), fields.get("message")
    newer = schema.isdecimal() and len(schema) < 16 and int(schema) > int(SCHEMA)
    if fields.get("phase") != "queued" or message is None or newer:
        return None  # it has moved on; or a newer worker wrote it, and may write messages that are strange to this one
    try:
        found = stored_round(message, fields.get("queue", ""))
    except Malformed as error:
        return f"its stored message is none of a round ({error})"
    wanted = (run_id, fields.get("epoch"), fields.get("step"))
    if tuple(map(str, found)) != wanted:
        said, expected = (" ".join(map(str, each)) for each in (found, wanted))
        return f"its stored message is that of another round (run, epoch and step are {said}, expected {expected})"
    return None
