"""The history of metrics, as charts of the overview."""

from __future__ import annotations

import re

from perdure import Client
from tests.support.example_flows import costs_and_questions  # noqa: F401 (registers the thinker)
from tests.support.in_process_runtime import runtime_of
from tests.support.page_visitor import Visitor, sound


def test_rounds_are_charts_of_latency_tokens_and_money_with_their_figures(
    visitor: Visitor, client: Client
) -> None:
    empty = sound(visitor.see("/overview")).text
    assert "No round in the last day" in empty and "No money in the last day" in empty
    runs = [
        client.submit("thinker", "Think", {"notes": 9, "tokens": tokens, "money": 0.25})
        for tokens in (700, 800)
    ]
    runtime = runtime_of(client)
    for run in runs:
        runtime.rounds.run(run.id, 0, 0)
    runtime.stats.round("thinker", "Controller", "continued", 9_000)
    runtime.stats.round("thinker", "Controller", "continued", 9_000)
    for number, flow in enumerate(("a", "b", "c", "d")):
        runtime.stats.spent(flow, {"tokens": 10 + number})
    runtime.write_stats()
    for span in ("hour", "day", "week"):
        page = sound(visitor.see(f"/overview?span={span}"))
        charts = page.text.partition("Latency and spending")[2].partition("By flow")[0]
        (mean,) = re.findall(r"(?<!queue wait )round (4\.\d+) s on average", charts)
        assert 4.5 <= float(mean) < 5
        assert re.search(r"queue wait [\d.]+ (ms|s) on average", charts)
        assert f"tokens 1,546 in the last {span}" in charts
        assert "thinker 1,500 d 13 c 12 other flows 21 Figures" in charts
        assert f"money $0.50 in the last {span} thinker $0.50 Figures" in charts
        assert len(re.findall(r'class="flow (?:of-\d|rest)" d="M5 ', page.html)) == 5
        assert f'aria-label="tokens by flow in the last {span}, 1,546, one point each' in page.html


def test_the_p95_of_all_rounds_and_waits_stands_beside_their_means(
    visitor: Visitor, client: Client
) -> None:
    empty = sound(visitor.see("/overview")).text
    assert empty.count("p95 since the metrics began: none") == 2
    stats = runtime_of(client).stats
    for milliseconds in (*[80] * 18, 2_000, 700_000):
        stats.round("thinker", "Controller", "continued", milliseconds)
    for role in ("controller", "executor"):
        stats.waited(role, 5_000_000)
    stats.flush(client._store)
    charts = sound(visitor.see("/overview")).text.partition("Latency and spending")[2]
    waits, _, rounds = charts.partition("Figures from mean queue wait")[0::1]
    assert "p95 since the metrics began: over 1 h" in waits
    assert "p95 since the metrics began: at most 2.5 s" in rounds
