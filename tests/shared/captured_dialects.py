#!/usr/bin/env python3
"""Request bodies that real clients sent to /v1/messages, /v1/messages/count_tokens, /v1/responses and /v1/embeddings, sent again to the daemon
with a scripted engine: 200 and well-formed, each. Usage: captured_dialects.py --bin FOLDER --shared FOLDER."""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "clients"))

import scripted  # noqa: E402
from client import SCALE, check  # noqa: E402
from harness import Case  # noqa: E402

PATHS = ("/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/embeddings")
CALL = '<think>hm</think><tool_call>\n{"name": "%s", "arguments": {"cmd": "cat README.md"}}\n</tool_call>'
RULES = [{"if": "# demo", "say": "It says demo."},
         {"if": r"Codex CLI.*README\.md", "say": CALL % "exec_command"},
         {"if": r"README\.md", "say": CALL % "bash"},
         {"if": ".", "say": "Hello, and more words than fit."}]


def events(reply):
    for block in bytes(reply.body).decode().split("\n\n"):
        lines = block.split("\n")
        if len(lines) == 2:
            data = json.loads(lines[1].removeprefix("data: "))
            check(lines[0] == "event: " + data["type"], "an event's name is its type", block)
            yield data


def check_message(found, calls, small):
    check(found["type"] == "message" and found["role"] == "assistant" and found["usage"]["input_tokens"] > 0, "a message", found)
    if not small:
        check(any(block["type"] == "tool_use" for block in found["content"]) == calls and (found["stop_reason"] == "tool_use") == calls, "calls", found)


def check_response(found, calls):
    check(found["object"] == "response" and found["status"] == "completed" and found["usage"]["total_tokens"] > 0, "a response", found)
    check(any(item["type"] == "function_call" for item in found["output"]) == calls, "calls", found["output"])


def replay(daemon, name, path, body, headers):
    reply = daemon.request("POST", path, body, headers).wait_end(30 * SCALE)
    check(reply.status == 200 and reply.complete, f"{name}: 200", reply.status, bytes(reply.body)[:500])
    calls = "README.md" in json.dumps(body) and "toolresult" not in name
    if path == "/v1/embeddings":
        check(len(reply.json()["data"]) == len(body["input"]), f"{name}: a vector each", reply.json())
    elif path == "/v1/messages/count_tokens":
        check(reply.json()["input_tokens"] > 1, f"{name}: a count", reply.json())
    elif not body.get("stream"):
        (check_message(reply.json(), calls, True) if path == "/v1/messages" else check_response(reply.json(), calls))
    elif path == "/v1/messages":
        found = list(events(reply))
        started = [event["index"] for event in found if event["type"] == "content_block_start"]
        check(found[0]["type"] == "message_start" and found[-1]["type"] == "message_stop" and started == list(range(len(started))), f"{name}: a whole stream", found)
        reason = found[-2]["delta"]["stop_reason"]
        check(reason == ("max_tokens" if body["max_tokens"] < 20 else "tool_use" if calls else "end_turn"), f"{name}: its reason", reason)
    else:
        found = list(events(reply))
        check([event["sequence_number"] for event in found] == list(range(len(found))), f"{name}: numbers", found)
        check(found[-1]["type"] == "response.completed", f"{name}: completed", found[-1])
        check_response(found[-1]["response"], calls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    folder = os.path.join(args.shared, "captures")
    with open(os.path.join(folder, "INDEX.json"), encoding="utf-8") as file:
        index = {name: entry for name, entry in json.load(file).items() if entry["path"] in PATHS}
    check(len(index) >= 13, "the captured bodies are there", sorted(index))
    case = Case(args.bin)
    failed = True
    try:
        daemon = scripted.serve(case, RULES)
        daemon.chat(max_tokens=4).wait_end(20 * SCALE)
        for name, entry in sorted(index.items()):
            with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
                body = json.load(file)
            body["model"] = "test-model"
            kept = {key: value for key, value in entry["headers"].items() if key in ("authorization", "x-api-key", "anthropic-version", "anthropic-beta", "user-agent", "accept")}
            replay(daemon, name, entry["path"], body, kept)
        print(f"{len(index)} captured bodies: 200 and well-formed")
        failed = False
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-4000:]}")


if __name__ == "__main__":
    main()
