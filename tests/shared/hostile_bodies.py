#!/usr/bin/env python3
"""The request bodies of case C7 as the shared generator writes them: each is answered as it should be, and the daemon is as well afterwards as
before. The long runs go through every tokenizer kind that this version reads. Usage: hostile_bodies.py --bin FOLDER --shared FOLDER."""
import argparse
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

from client import SCALE, await_until, check  # noqa: E402
from harness import Case, Daemon  # noqa: E402

# code of the refusal, or "" for 200; by the name between c7_ and .json
RIGHT = {"cut_multibyte": "invalid_json", "overlong_utf8": "invalid_json", "lone_surrogate_escape": "invalid_json", "nul_escape": "", "trailing_comma": "invalid_json",
         "array_top": "invalid_request", "empty": "invalid_json", "deep_unknown_field": "invalid_json", "deep_tool_schema": "invalid_json", "cyclic_ref": "invalid_request",
         "huge_numbers": "invalid_json"}
VOCABULARIES = ("llama-spm", "gpt-2", "qwen3")


def write_fixtures(shared, out):
    """Runs the cases' generator up to its template rows, which alone need Jinja."""
    cases = os.path.join(shared, "cases")
    sys.path.insert(0, cases)
    with open(os.path.join(cases, "gen_open.py"), encoding="utf-8") as file:
        source = file.read()
    end = source.find("\nimport jinja2")
    check(end > 0, "gen_open.py imports jinja2 on a line of its own")
    before, sys.argv = sys.argv, ["gen_open.py", out, os.path.join(shared, "models", "stories260K-f32.gguf")]
    exec(compile(source[:end], "gen_open.py", "exec"), {"__name__": "gen_open"})
    sys.argv = before
    bodies = {name[3:-5]: os.path.join(out, name) for name in os.listdir(out) if name.startswith("c7_")}
    check(len(bodies) == 16 and set(bodies) == set(RIGHT) | {name for name in bodies if name.startswith("run_")}, "16 bodies, each known to this test", sorted(bodies))
    return {name: open(path, "rb").read() for name, path in sorted(bodies.items())}


def post(daemon, body, limit_s):
    reply = daemon.request("POST", "/v1/chat/completions", body).wait_end(limit_s * SCALE)
    check(reply.took_s < limit_s * SCALE, f"within {limit_s} s", reply.took_s)
    answer = json.loads(bytes(reply.body).decode("utf-8"))
    check((reply.status == 200) != ("error" in answer), "an answer or an error", reply.status, answer)
    return reply, answer.get("error", {}).get("code", "")


def malformed(case, bodies, shared):
    daemon = case.daemon(None, engine={"stop_s": 5}, config={"model_name": "M"}, args=["--model", os.path.join(shared, "models", "stories260K-f32.gguf")])
    daemon.chat_until_answered()
    for name, body in bodies.items():
        reply, code = post(daemon, body, 5 if name.startswith("run_") else 1)
        if name.startswith("run_"):
            check(code in ("", "context_length_exceeded"), f"{name}: 200 or the context's error", reply.status, bytes(reply.body)[:500])
        else:
            check(code == RIGHT[name] and reply.status == (400 if code else 200), name, reply.status, bytes(reply.body)[:500])
        print(f"{name}: {reply.status} {code} in {reply.took_s:.2f} s", flush=True)
        daemon.alive(fake=False)


def runs(case, bodies, shared, name):
    """A fake engine with room for everything, so that each run is tokenised whole."""
    model = os.path.join(shared, "tokenizers", name + ".gguf")
    daemon = Daemon(case, "fake_engine.py", config={"model_name": "M"}, args=["--model", model], wait=None)
    case.daemons.append(daemon)
    daemon.start(wait=False)
    await_until(lambda: daemon.process.poll() is not None or daemon.listening(), 10 * SCALE, "an end or a port")
    if daemon.process.poll() is not None:
        check(daemon.process.returncode == 1 and "tokenizer.ggml." in daemon.stderr(), "a vocabulary that is not read yet is refused by its key", daemon.stderr())
        print(f"{name}: not read by this version: {daemon.stderr().strip()}")
        return
    daemon.fake.script(ready="READY 4000000 stop", ids=[10, 11, 12])
    for run in (run for run in bodies if run.startswith("run_")):
        reply, code = post(daemon, bodies[run], 5)
        check(reply.status == 200, f"{name} {run}: 200", reply.status, bytes(reply.body)[:500])
        print(f"{name} {run}: {reply.json()['usage']['prompt_tokens']} tokens in {reply.took_s:.2f} s", flush=True)
    check(daemon.get("/health").status == 200, "alive")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    case = Case(args.bin)
    failed = True
    try:
        bodies = write_fixtures(args.shared, tempfile.mkdtemp(dir=case.folder))
        malformed(case, bodies, args.shared)
        for name in VOCABULARIES:
            runs(case, bodies, args.shared, name)
        failed = False
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-3000:]}")


if __name__ == "__main__":
    main()
