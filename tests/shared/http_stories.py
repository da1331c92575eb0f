#!/usr/bin/env python3
"""A small real model over HTTP: token ids, streamed and plain, against the greedy ids of another implementation. Usage:
http_stories.py --bin FOLDER --shared FOLDER. Ids are compared up to the first step whose two best logits lie closer than 0.002: from
there on rounding may choose."""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

from client import SCALE, check  # noqa: E402
from harness import Case  # noqa: E402

GAP = 0.002


def completion(daemon, row, stream):
    body = {"prompt": row["prompt"], "temperature": 0, "max_tokens": len(row["greedy_tokens"]), "return_token_ids": True, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    reply = daemon.request("POST", "/v1/completions", body).wait_end(60 * SCALE)
    check(reply.status == 200, "200", reply.status, bytes(reply.body)[:500])
    if not stream:
        answer = reply.json()
        choice = answer["choices"][0]
        return answer.get("prompt_token_ids", choice.get("prompt_token_ids")), choice["token_ids"], choice["text"], answer["usage"]
    check(reply.said_done and not reply.stream_errors, "a stream that ended well", reply.events[-3:])
    prompts = [chunk["prompt_token_ids"] for chunk in reply.data if "prompt_token_ids" in chunk]
    prompts += [choice["prompt_token_ids"] for chunk in reply.data for choice in chunk.get("choices", []) if "prompt_token_ids" in choice]
    ids = [token for chunk in reply.data for choice in chunk.get("choices", []) for token in choice.get("token_ids") or []]
    return prompts[0], ids, "".join(reply.deltas), reply.data[-1]["usage"]


def compare(daemon, row, kv_type):
    certain = next((i for i, gap in enumerate(row["top2_gap"]) if gap < GAP), len(row["greedy_tokens"]))
    answers = {stream: completion(daemon, row, stream) for stream in (False, True)}
    for stream, (prompt_ids, ids, text, usage) in answers.items():
        what = f"{row['prompt']!r} {'streamed' if stream else 'plain'}, kv_type {kv_type}"
        check(prompt_ids == row["prompt_tokens"], f"the prompt's ids: {what}", prompt_ids, row["prompt_tokens"])
        check(ids[:certain] == row["greedy_tokens"][:certain], f"the ids: {what}", first_difference(ids, row), ids, row["greedy_tokens"])
        check(usage["prompt_tokens"] == len(prompt_ids) and usage["completion_tokens"] == len(ids), f"usage: {what}", usage)
        if certain == len(row["greedy_tokens"]):
            check(text == row["text"], f"the text: {what}", text, row["text"])
    check(answers[False][:3] == answers[True][:3], "streamed and plain are the same", answers)
    return certain


def first_difference(ids, row):
    for i, (found, wanted) in enumerate(zip(ids, row["greedy_tokens"])):
        if found != wanted:
            return f"first difference at {i}, where the two best lie {row['top2_gap'][i]} apart"
    return f"lengths {len(ids)}, {len(row['greedy_tokens'])}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    models = os.path.join(args.shared, "models")
    with open(os.path.join(models, "stories260K-greedy.json"), encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    case = Case(args.bin)
    failed = True
    try:
        for kv_type in ("f32", "f16"):
            daemon = case.daemon(None, engine={"stop_s": 5}, args=["--model", os.path.join(models, "stories260K-f32.gguf"), "--set", f"engine.kv_type={kv_type}"])
            compared = [compare(daemon, row, kv_type) for row in rows]
            print(f"kv_type {kv_type}: {compared} tokens of {len(rows)} prompts are equal")
            chat = daemon.chat(text="Tell me a story", temperature=0, max_tokens=20).wait_end(60 * SCALE)
            check(chat.status == 200, "a model without a chat template answers chats", chat.status, bytes(chat.body))
        failed = False
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-4000:]}")


if __name__ == "__main__":
    main()
