"""What a long agent pays for its input, by the price list: ``python -m benchmarks.prompt_cache``.

A run of an agent whose commands return long results asks a server with Anthropic's rules for prompt
caches (``prompt_cache_server``). It needs pydantic-ai-slim[anthropic]. The script runs on older
commits too, so that they can be compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from genai_prices import Usage, calc_price

from benchmarks.prompt_cache_server import BYTES_A_TOKEN, Counted, serving
from perdure import ControllerExecutorFlow, command, register
from perdure.flows.controllers.model import ModelController
from perdure.worker.embedded import EmbeddedServer
from perdure.worker.settings import Settings
from tests.support.round_driver import driving

MODEL = "claude-sonnet-4-6"
FLOW = "long_agent"


def main() -> None:
    """Run the agent, and print the cost of its input."""
    parser = argparse.ArgumentParser("python -m benchmarks.prompt_cache", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="replies of the model (default 50)")
    parser.add_argument(
        "--tokens", type=int, default=60_000, help="of the whole history (default 60,000)"
    )
    parser.add_argument(
        "--cache", choices=["true", "false"], help="settings: {cache: ...} of the flow"
    )
    options = parser.parse_args()
    cache = None if options.cache is None else options.cache == "true"
    counted = run(options.rounds, options.tokens, cache)
    full, read, written = (
        sum(getattr(each, name) for each in counted) for name in ("full", "read", "written")
    )
    print(
        f"{len(counted)} requests, {full + read + written:,} input tokens: {full:,} at full price, "
        f"{read:,} read from the cache, {written:,} written to it"
    )
    print(f"input: ${price_of(counted):.4f} by the price list of {MODEL}")


def price_of(counted: list[Counted]) -> float:
    """Return all requests' input price in US dollars."""
    return sum(map(_price_of, counted))


def _price_of(counted: Counted) -> float:
    usage = Usage(
        input_tokens=counted.full + counted.read + counted.written,
        cache_read_tokens=counted.read,
        cache_write_tokens=counted.written,
    )
    return float(calc_price(usage, MODEL, provider_id="anthropic").input_price)


def run(rounds: int, tokens: int, cache: bool | None = None) -> list[Counted]:
    """Run an agent to its end. Return its requests' tokens.

    Args:
        rounds: Number of the model's replies; the last one finishes.
        tokens: Of the whole history.
        cache: The flow's ``settings: {cache: ...}``; None for none.
    """
    length = tokens * BYTES_A_TOKEN // (rounds - 1) - 300  # the call and the frame of both
    calls = [("read_page", {"number": number}) for number in range(rounds - 1)]
    os.environ["BENCHMARK_KEY"] = "none"
    with (
        tempfile.TemporaryDirectory(prefix="hf-") as room,
        EmbeddedServer(Path(room), appendfsync="everysec") as server,
        serving([*calls, ("finish", {"answer": "done"})]) as (url, stored),
    ):

        @register(FLOW)
        class LongAgent(ControllerExecutorFlow):
            """An agent that reads pages."""

            controller = ModelController(
                model=f"anthropic:{MODEL}",
                api_key="env:BENCHMARK_KEY",
                provider={"base_url": url},
                max_tokens=1_000,
                settings=None if cache is None else {"cache": cache},
            )
            max_rounds = rounds + 1

            @command(idempotent=True)
            def read_page(self, number: int) -> str:
                """Read a page of the book, by its number."""
                words = f"Page {number}. " + "The tide comes in twice a day at this coast. " * 400
                return words[:length]

        with driving(Settings(redis_url=server.url)) as driver:
            run_id = driver.client.submit(FLOW, "Read the book.").id
            driver.play()
            ended = driver.client.get(run_id)
            assert ended.status.value == "completed", ended
        return stored.counted


if __name__ == "__main__":
    main()
