"""Settings with which ``perdure worker`` does not start."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import CommandLine


def test_a_url_or_a_key_that_will_not_do_is_refused_in_a_sentence(tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path)
    for words, told in (
        (("--model-url", "localhost:11434"), "model_url"),
        (("--model", ""), "model"),
    ):
        done = perdure("worker", *words)
        assert done.code == 2 and told in done.err, done
    done = perdure("worker", variables={"PERDURE_MODEL_KEY": "sk-canary-0123456789"})
    assert (
        done.code == 2
        and "model_key" in done.err
        and "env:NAME" in done.err
        and "canary" not in done.err + done.out
    )
