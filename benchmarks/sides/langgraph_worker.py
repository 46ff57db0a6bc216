"""One worker process of LangGraph. It plays a requested number of runs."""

from __future__ import annotations

import os
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from benchmarks.sides.langgraph import DURABILITY, ROUNDS, SIZE, THREADS, URL
from benchmarks.sides.self_report import number
from benchmarks.tally import VARIABLE, stamp, tell_end, tell_ready
from benchmarks.work import state_after


class State(TypedDict):
    """State of a run."""

    done: int
    state: str


def play(state: State) -> State:
    """Play a round."""
    stamp()
    done = state["done"] + 1
    return {"done": done, "state": state_after(done, len(state["state"]))}


def main() -> None:
    """Play the requested runs, until killed."""
    rounds, size, durability = (
        int(os.environ[ROUNDS]),
        int(os.environ[SIZE]),
        os.environ[DURABILITY],
    )
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = ConnectionPool(os.environ[URL], min_size=THREADS, max_size=THREADS, kwargs=options)
    saver = PostgresSaver(pool)
    saver.setup()
    graph: Any = StateGraph(State)
    graph.add_node("round", play)
    graph.add_edge(START, "round")
    graph.add_conditional_edges(
        "round", lambda state: END if state["done"] >= rounds else "round", ["round", END]
    )
    compiled = graph.compile(checkpointer=saver)

    def run() -> None:
        config = {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": rounds + 5}
        ended = compiled.invoke(
            {"done": 0, "state": state_after(0, size)}, config, durability=durability
        )
        tell_end(ended["done"])

    with (
        ThreadPoolExecutor(THREADS) as threads,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing,
    ):
        hearing.bind(f"{os.environ[VARIABLE]}.{number()}")
        tell_ready()
        while True:
            for _ in range(int(hearing.recv(64))):
                threads.submit(run)


if __name__ == "__main__":
    main()
