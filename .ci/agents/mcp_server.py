"""A minimal MCP server over stdio for the agents under test. It has one tool, `add`."""

import json
import sys

ADD = {
    "name": "add",
    "description": "Adds two numbers",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


def answer(method, params):
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list":
            return {"tools": [ADD]}
        case "tools/call":
            given = params["arguments"]
            text = f"the sum is {given['a'] + given['b']}"
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case "ping":
            return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    if result is None:
        outcome = {"error": {"code": -32601, "message": "method not found"}}
    else:
        outcome = {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
