"""docs/tutorials/: their commands are run as printed, by real processes, and print the shown
output.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.chat_server import Says, chat_server
from tests.support.docs_console_blocks import console
from tests.support.redis_servers import server

#: Steps that the environment of the tests has done already.
PREPARES = re.compile(r"pip install|redis-server |curl |open ")


@pytest.mark.timeout(240)
def test_the_tutorial_for_a_celery_app(tmp_path: Path) -> None:
    with server() as own:
        path = own.url.partition("://")[2].partition("?")[0]
        url = f"redis+socket://{path}?virtual_host=0"
        with console(tmp_path, exports={"BROKER_URL": url}) as reader:
            done = reader.play(Path("tutorials/celery-app.md"), skip=PREPARES)
    assert "python buy.py" in done


@pytest.mark.timeout(240)
def test_the_tutorial_for_operators(tmp_path: Path) -> None:
    with console(tmp_path) as reader:
        done = reader.play(Path("tutorials/operator.md"), skip=PREPARES)
    assert len(done) >= 12


@pytest.mark.timeout(240)
def test_the_tutorial_for_builders_of_agents(tmp_path: Path) -> None:
    """A server that speaks OpenAI's protocol stands for the model: it gives the answers of the
    page.
    """
    script = [
        Says("I compare the prices.", [("price", {"city": "Rome"})]),
        Says("", [("price", {"city": "Oslo"})]),
        Says("Rome is cheaper.", [("book", {"city": "Rome", "euros": 80})]),
        Says("", [("finish", {"answer": "Rome is booked."})]),
    ]
    with (
        chat_server(script) as model,
        console(tmp_path, exports={"MODEL_URL": model.url}) as reader,
    ):
        done = reader.play(Path("tutorials/agent.md"), skip=PREPARES)
    assert "perdure resume trip --approve" in done
