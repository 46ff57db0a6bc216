"""A small MCP server over stdio with a tool for prices and one for payments.

It starts in a tenth of a second, and appends a line for each call to the
file that its first argument names.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
ANSWERS = {"price": "8", "pay": "paid 12"}


def result_of(method: str, params: dict[str, Any], calls: str) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "till", "version": "1"}
        version = params.get("protocolVersion")
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": about,
        }
    if method == "tools/list":
        return {
            "tools": [{"name": name, "description": "", "inputSchema": SCHEMA} for name in ANSWERS]
        }
    if method == "tools/call":
        with open(calls, "a", encoding="utf-8") as file:
            file.write(f"{params['name']}\n")
        return {"content": [{"type": "text", "text": ANSWERS[params["name"]]}]}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = result_of(asked["method"], asked.get("params") or {}, sys.argv[1])
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            print(json.dumps(reply), flush=True)
