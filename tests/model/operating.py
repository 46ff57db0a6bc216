"""The moves of people: submit, stop, resume, retry, delete; late, and again after a lost reply."""

from __future__ import annotations

from typing import Any

from tests.model.laws import law
from tests.model.state import Client, Run, World, server_of
from tests.model.transitions import ENDED, delete, offer_again, request_stop, resume, retry, submit

Move = tuple[Any, ...]


def possible(w: World) -> list[Move]:
    """Return the moves of people."""
    config = w.config
    moves: list[Move] = []
    waiting = len(w.clients) < config.clients
    for place, run in enumerate(w.runs):
        if run is None:
            moves += _submissions(w, place, 1)
            continue
        for kind in config.operations:
            if kind == "resume:more" and not run.unfinished:
                continue  # people give no more cycles to a run with some left
            if run.epoch < config.epochs or kind.startswith("stop"):
                moves.append(("op", place, kind, True))
                if config.mute and waiting:
                    moves.append(("op", place, kind, False))
                if kind in config.late and waiting:
                    moves.append(("look", place, kind))
        if config.deletes and place >= config.kept:
            moves.append(("delete", place))
            moves += _submissions(w, place, run.nonce + 1)
    for place, client in enumerate(w.clients):
        if client.reply is not None:
            moves.append(("resend", place))
        else:
            moves += [
                ("send", place, heard) for heard in ((True, False) if config.mute else (True,))
            ]
    return moves


def _submissions(w: World, place: int, nonce: int) -> list[Move]:
    if not w.config.deletes or w.topic is not None or nonce > w.config.submissions:
        return []
    waiting = len(w.clients) < w.config.clients
    return [("submit", place, nonce, heard) for heard in ((True, False) if waiting else (True,))]


def kind_of(w: World, move: Move) -> str:
    """Return the operation that a client's move makes; "" for other moves."""
    match move:
        case ("op", _, kind, _) | ("look", _, kind):
            return str(kind)
        case ("send" | "resend", place, *_):
            return str(w.clients[place].kind)
    return ""


def operate(w: World, place: int, kind: str, heard: bool) -> str:
    """Look at the run and send an operation at once, as a person; the reply may be lost."""
    return _send(w, _client(w, place, kind), heard)


def look(w: World, place: int, kind: str) -> None:
    """Look at the run, as a person who will send a fitting operation later."""
    w.clients.append(_client(w, place, kind))


def send(w: World, place: int, heard: bool) -> str:
    """Send the operation that fitted the seen state."""
    return _send(w, w.clients.pop(place), heard)


def resend(w: World, place: int) -> str:
    """Send an operation again whose reply was lost, as the client library does."""
    client = w.clients.pop(place)
    before = server_of(w)
    word = client.remembered or _called(w, client)
    law(
        "I13",
        server_of(w) == before,
        "{} sent again ({}, then {}) changed something",
        client.kind,
        client.reply,
        word,
    )
    law(
        "I13",
        word == client.reply,
        "{} was answered {}, and when it is sent again {}",
        client.kind,
        client.reply,
        word,
    )
    return word


def resubmit(w: World, place: int, nonce: int, heard: bool) -> str:
    """Submit this run id, as an unknowing client."""
    before, mine = server_of(w), w.runs[place]
    word = submit(w, place, nonce, "queued")
    law(
        "I11",
        (word == "ok") == (mine is None or mine.nonce == nonce),
        "submission {} of an id in use is answered {}",
        nonce,
        word,
    )
    law("I11", mine is None or server_of(w) == before, "a submission overwrote a run")
    if not heard:
        w.clients.append(Client(place, f"submit:{nonce}", 0, 0, None, word, ""))
    return word


def remove(w: World, place: int) -> str:
    """Delete the run; clients without a reply to their operations have given up by now."""
    word = delete(w, place)
    if word == "ok":
        w.clients = [client for client in w.clients if client.run != place]
    return word


def offer(w: World, place: int) -> str:
    """Publish this run again, as the unpausing client does."""
    return offer_again(w, place)


def _client(w: World, place: int, kind: str) -> Client:
    run = w.runs[place]
    assert run is not None
    return Client(place, kind, run.epoch, run.step, run.i_id, None, "")


def _send(w: World, client: Client, heard: bool) -> str:
    rules = w.rules
    run = w.runs[client.run]
    before = w.before(client.run)
    word = _called(w, client)
    if before is not None and run is not None:
        _right(before, run, client, word)
        if client.kind.startswith("stop"):
            _acknowledged(run, word)
    refused = word.startswith(("running", "finished", "stale"))
    remembered = (
        rules.operations_are_remembered
        and word not in ("stale", "missing")
        and not (refused and not rules.refusals_are_remembered)
    )
    if remembered and not rules.others_do_not_push_a_reply_out:
        w.clients = [
            other._replace(remembered="") if other.run == client.run else other
            for other in w.clients
        ]
    if not heard:
        w.clients.append(client._replace(reply=word, remembered=word if remembered else ""))
    return word


def _called(w: World, client: Client) -> str:
    kind, _, option = client.kind.partition(":")
    if kind == "submit":
        return submit(w, client.run, int(option), "queued")
    if kind == "stop":
        return request_stop(w, client.run, option)
    if kind == "resume":
        return resume(
            w, client.run, (client.epoch, client.step), client.i_id, bool(option), option == "more"
        )
    return retry(w, client.run, (client.epoch, client.step))


def _acknowledged(run: Run, word: str) -> None:
    if word.startswith("asked") and run.since_stop is None:
        run.since_stop = 1
    if word.startswith("stopped"):
        run.since_stop = 0


def _right(before: Run, after: Run, client: Client, word: str) -> None:
    """Stop against finish agrees with the reply, and a refused operation changes nothing."""
    kind = client.kind
    if kind.startswith("stop"):
        expected = (
            f"finished {before.phase}" if before.phase in (*ENDED, "stopped") else "stopped stopped"
        )
        expected = (
            "asked leased"
            if before.phase == "leased" and kind in ("stop:graceful", "stop:only")
            else expected
        )
        law(
            "I9",
            word == expected and after.phase == word.split()[1],
            "a stop of a {} run is answered {}, and it is {}",
            before.phase,
            word,
            after.phase,
        )
        return
    done = after.epoch != before.epoch
    law(
        "I9",
        done == (word in ("queued", "waiting", "interrupted", "completed")),
        "{} is answered {}",
        kind,
        word,
    )
    law(
        "I9",
        not done or word == after.phase,
        "{} is answered {}, and the run is {}",
        kind,
        word,
        after.phase,
    )
    if done:
        law(
            "I10",
            client.epoch == before.epoch,
            "{} was right for epoch {} and was taken in epoch {}",
            kind,
            client.epoch,
            before.epoch,
        )


MOVES = {
    "op": operate,
    "look": look,
    "send": send,
    "resend": resend,
    "submit": resubmit,
    "delete": remove,
    "offer": offer,
}
