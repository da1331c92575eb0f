#!/usr/bin/env python3
"""Bodies that real clients sent to chat and completions, replayed against the real daemon with a scripted engine: each is answered well-formed, or
with the 400 that docs/api.md gives for it. Usage: captured_bodies.py --bin FOLDER --shared FOLDER."""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

from client import SCALE, check  # noqa: E402
from harness import Case  # noqa: E402

PATHS = ("/v1/chat/completions", "/v1/completions")
# What docs/api.md refuses of these bodies: pictures without a vision child, log probabilities of a prompt.
REFUSED = {"openai-chat-stream-image-tools": "image_invalid", "aisdk-chat-stream-image-tools": "image_invalid", "pi-chat-image": "image_invalid",
           "openai-completions-logprobs-echo": "invalid_request"}
READY = "READY 65536 stop logprobs grammar"


def script(letters, text, logprobs):
    """Of an engine that says `text`, a byte a token."""
    ids = [letters.byte_ids[byte] for byte in text.encode()]
    if not logprobs:
        return {"ids": ids, "jobs": [[["answer", len(ids), 0]]]}
    rivals = ",".join(f"{letters.byte_ids[byte]}:-0.5" for byte in b"ab")
    return {"jobs": [[f"T {token} lp=-0.5 top={rivals}" for token in ids] + [f"DONE {len(ids)} 1 1.0 1.0 stop"]]}


def check_stream(name, reply, body):
    chunks = reply.data
    check(reply.said_done and not reply.stream_errors, f"{name}: a stream that ended well", reply.events[-3:])
    check(len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1, f"{name}: one id, created, model")
    usage = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    wanted = body.get("stream_options", {}).get("include_usage", False)
    check(len(usage) == int(wanted), f"{name}: usage when asked for", usage)
    if wanted:
        check(chunks[-1]["choices"] == [] and usage[0]["total_tokens"] == usage[0]["prompt_tokens"] + usage[0]["completion_tokens"], f"{name}: the sum", usage)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    check(choices[0]["delta"].get("role") == "assistant", f"{name}: the role first", choices[0])
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    check(len(reasons) == 1, f"{name}: one reason", reasons)
    calls = {}
    for choice in choices:
        for call in choice["delta"].get("tool_calls", []):
            if call["index"] not in calls:
                check(call["id"] and call["type"] == "function" and call["function"]["arguments"] == "", f"{name}: a call's head", call)
                calls[call["index"]] = [call["function"]["name"], ""]
            else:
                check(set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}, f"{name}: only arguments", call)
                calls[call["index"]][1] += call["function"]["arguments"]
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    return content, [tuple(calls[index]) for index in sorted(calls)], reasons[0]


def check_plain(name, reply, body):
    answer = reply.json()
    check(answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"], f"{name}: usage", answer)
    choice = answer["choices"][0]
    if "message" not in choice:
        check(answer["object"] == "text_completion", f"{name}: a completion", answer)
        return choice["text"], [], choice["finish_reason"]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
    return message["content"] or "", calls, choice["finish_reason"]


def replay(daemon, letters, name, path, raw):
    body = json.loads(raw)
    last_is_result = body.get("messages", [{}])[-1].get("role") == "tool"
    tool = body["tools"][0]["function"]["name"] if body.get("tools") and not last_is_result else None
    text = f'<tool_call>\n{{"name": "{tool}", "arguments": {{"path": "a b"}}}}\n</tool_call>' if tool else "All is well."
    if "response_format" in body:
        text = '{"a":1}'
    daemon.fake.script(ready=READY, **script(letters, text, body.get("logprobs")))
    reply = daemon.request("POST", path, raw).wait_end(20 * SCALE)
    if name in REFUSED:
        check(reply.status == 400 and reply.json()["error"]["code"] == REFUSED[name], f"{name}: the documented 400", reply.status, bytes(reply.body)[:500])
        return f"400 {REFUSED[name]}"
    check(reply.status == 200, f"{name}: 200", reply.status, bytes(reply.body)[:800])
    found = (check_stream if body.get("stream") else check_plain)(name, reply, body)
    limit = body.get("max_tokens", body.get("max_completion_tokens", len(text) + 1))
    if limit < len(text):
        check(found == (text[:limit], [], "length"), f"{name}: cut at its limit", found)
        return f"200 {found[2]}"
    wanted = ("", [(tool, '{"path": "a b"}')], "tool_calls") if tool else (text, [], "stop")
    check(found == wanted, f"{name}: what the engine said", found, wanted)
    return f"200 {found[2]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    captures = os.path.join(args.shared, "captures")
    with open(os.path.join(captures, "INDEX.json"), encoding="utf-8") as file:
        index = json.load(file)
    case = Case(args.bin)
    failed = True
    try:
        names = [name for name, entry in index.items() if entry["path"] in PATHS]
        check(len(names) == 20, "20 bodies of chat and completions", names)
        raw = {name: open(os.path.join(captures, name + ".json"), "rb").read() for name in names}
        models = sorted({json.loads(text)["model"] for text in raw.values()})
        daemon = case.daemon(config={"model_name": models[0], "aliases": models[1:]})
        for name in names:
            print(f"{name}: {replay(daemon, case.letters, name, index[name]['path'], raw[name])}", flush=True)
        daemon.alive()
        failed = False
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-4000:]}")


if __name__ == "__main__":
    main()
