"""open_hook: the run keeps the digest of each hook's secret, and sixteen at most."""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import claim, commit_next, everything, hash_of, new_run


def opened(store: Store, name: str = "paid", digest: str = "d", nonce: str = "nonce-r") -> str:
    return store.signals.open_hook("r", nonce=nonce, name=name, digest=digest)


def test_a_run_keeps_the_digest_of_each_of_its_hooks(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert opened(store) == opened(store, "sent", "e") == "ok"
    before = everything(store)
    assert opened(store) == "ok"
    assert everything(store) == before
    commit_next(store, granted)
    assert (hash_of(store)["h:paid"], hash_of(store)["h:sent"]) == ("d", "e")


def test_a_run_has_sixteen_hooks_at_most(store: Store) -> None:
    new_run(store)
    assert {opened(store, f"n{number}") for number in range(16)} == {"ok"}
    assert opened(store, "more") == "full"
    assert "h:more" not in hash_of(store)
    assert opened(store, "n1", "new") == "ok"


def test_another_run_of_its_id_gets_no_hook(store: Store) -> None:
    assert opened(store) == "missing"
    new_run(store)
    assert opened(store, nonce="another") == "stale"
    assert "h:paid" not in hash_of(store)


def test_all_workers_derive_secrets_from_one_key(store: Store) -> None:
    assert store.signals.hook_key("first") == store.signals.hook_key("second") == "first"
