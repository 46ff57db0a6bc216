"""An MCP server over stdio that surprises its clients: `python -m` it with one of these words.

- ``latin1``: its first call writes a line that is not UTF-8, then answers.
- ``complain``: it answers its first call with an error that does not say which request it means.
- ``hang FILE``: it never answers its first call, nor anything later. FILE says that it did.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.endless_mcp_server import result_of


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    if asked["method"] == "tools/call":
        return {"result": {"content": [{"type": "text", "text": "ok"}]}}
    result = result_of(asked)
    return {"result": result} if result else {"error": {"code": -32601, "message": "no"}}


def surprise(does: list[str], request: dict[str, Any]) -> None:
    if does[0] == "complain":
        request["id"] = None
    elif does[0] == "latin1":
        sys.stdout.buffer.write("fortschritt: äöü\n".encode("latin-1"))
        sys.stdout.buffer.flush()
    elif not Path(does[1]).exists():
        Path(does[1]).touch()
        time.sleep(600)


if __name__ == "__main__":
    calls = 0
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] == "tools/call":
            calls += 1
            if calls == 1:
                surprise(sys.argv[1:], request)
        unread = {"error": {"code": -32700, "message": "Parse error"}}
        reply = unread if request["id"] is None else answer(request)
        reply = {"jsonrpc": "2.0", "id": request["id"], **reply}
        print(json.dumps(reply), flush=True)
