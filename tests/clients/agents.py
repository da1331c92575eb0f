#!/usr/bin/env python3
"""One agent from npm against the real daemon with a scripted model: prompt, tool call, tool executed, tool result, final text.
agents.py --bin FOLDER --work FOLDER NAME. The file that the tool reads holds a word that nobody else knows: only who ran the tool and sent
its result back can end with it."""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import uuid

import scripted
from scripted import SCALE

from client import check  # noqa: E402
from harness import Case  # noqa: E402
import procs  # noqa: E402

LIMIT_S = 100
PROMPT = "What is in README.md?"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def pi(api):
    def make(home, _project, port):
        base = f"http://127.0.0.1:{port}" + ("" if api == "anthropic-messages" else "/v1")
        model = {"id": "test-model", "reasoning": api != "openai-completions", "input": ["text"], "contextWindow": 131072, "maxTokens": 4096}
        write(os.path.join(home, ".pi", "agent", "models.json"),
              json.dumps({"providers": {"local": {"baseUrl": base, "api": api, "apiKey": "k", "models": [model]}}}))
        return [["pi", "--provider", "local", "--model", "test-model", "--no-session", "--offline", "-p", PROMPT]], {}
    return make


def qwen(_home, _project, port):
    return [["qwen", "--auth-type", "openai", "-y", "-p", PROMPT]], {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_MODEL": "test-model"}


def opencode(_home, project, port):
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "k"},
                "models": {"test-model": {"tool_call": True, "limit": {"context": 131072, "output": 4096}}}}
    write(os.path.join(project, "opencode.json"), json.dumps({"autoupdate": False, "share": "disabled", "enabled_providers": ["local"], "model": "local/test-model",
                                                              "small_model": "local/test-model", "provider": {"local": provider}}))
    return [["opencode", "run", "--pure", "-m", "local/test-model", PROMPT]], {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def cline(_home, _project, port):
    return [["cline", "auth", "-p", "openai-compatible", "-k", "k", "-m", "test-model", "-b", f"http://127.0.0.1:{port}/v1"],
            ["cline", "-P", "openai-compatible", "-m", "test-model", "--json", PROMPT]], {}


def codex(home, _project, port):
    write(os.path.join(home, ".codex", "config.toml"), 'model="test-model"\nmodel_provider="local"\n[model_providers.local]\nname="local"\n'
          f'base_url="http://127.0.0.1:{port}/v1"\nenv_key="LOCAL_KEY"\nwire_api="responses"\n')
    return [["codex", "exec", "--skip-git-repo-check", "-s", "read-only", "--ephemeral", PROMPT]], {"LOCAL_KEY": "k", "CODEX_HOME": os.path.join(home, ".codex")}


# name -> how it is set up and run, the path it talks to, the tool that reads a file and its arguments
AGENTS = {
    "pi": (pi("openai-completions"), "bash", {"command": "cat README.md"}),
    "pi_responses": (pi("openai-responses"), "bash", {"command": "cat README.md"}),
    "pi_messages": (pi("anthropic-messages"), "bash", {"command": "cat README.md"}),
    "qwen": (qwen, "run_shell_command", {"command": "cat README.md", "description": "read", "is_background": False}),
    "opencode": (opencode, "bash", {"command": "cat README.md", "description": "read"}),
    "cline": (cline, "run_commands", {"commands": ["cat README.md"]}),
    "codex": (codex, "exec_command", {"cmd": "cat README.md"}),
    # A tool that stands in a namespace: the model knows it by one name, codex by two, and only the right tool gives this refusal.
    "codex_namespace": (codex, "multi_agent_v1__close_agent", {"target": "nobody"}),
}
PROOFS = {"codex_namespace": "invalid agent id nobody"}  # instead of the file's word


def rules(tool, arguments, proof):
    call = "<think>I should look.</think><tool_call>\n" + json.dumps({"name": tool, "arguments": arguments}) + "\n</tool_call>"
    return [{"if": f"({proof})", "say": "The tool says {1}."},
            {"if": r"README\.md", "unless": "[Tt]itle generator", "say": call},
            {"if": ".", "say": "A short title"}]


def run(case, work, name):
    setup, tool, arguments = AGENTS[name]
    secret = "secret-" + uuid.uuid4().hex[:12]
    proof = PROOFS.get(name, secret)
    daemon = scripted.serve(case, rules(tool, arguments, proof))
    home, project = (tempfile.mkdtemp(prefix=prefix, dir=case.folder) for prefix in ("home-", "project-"))
    write(os.path.join(project, "README.md"), secret + "\n")
    commands, more = setup(home, project, daemon.port)
    mark = uuid.uuid4().hex
    env = scripted.environment(work, home, **more, **{procs.MARK: mark})
    output = ""
    try:
        for command in commands:
            if command[0] == "opencode":  # the package of its program alone
                command[0] = sorted(glob.glob(os.path.join(work, "node_modules", "opencode-linux-*", "bin", "opencode")))[-1]
            with open(os.path.join(project, "..", "output"), "w+", encoding="utf-8", errors="replace") as file:
                done = subprocess.run(command, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                      timeout=LIMIT_S * SCALE, check=False)
                file.seek(0)
                output = file.read()
            check(done.returncode == 0, f"{' '.join(command[:2])} ended with {done.returncode}", output[-3000:])
        check(f"The tool says {proof}." in output, "the agent's last words hold what only the tool knew", output[-3000:], scripted.noted(daemon, "answers"))
        answers = scripted.noted(daemon, "answers")
        check(answers[-1] == f"The tool says {proof}." and any(tool in answer for answer in answers), "call, then result, then text", answers)
    finally:
        scripted.end_marked(mark)
    daemon.await_requests(running=0, queued=0)
    check(daemon.status()["totals"]["failed"] == 0, "no request failed", daemon.status())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("name", choices=sorted(AGENTS))
    args = parser.parse_args()
    case = Case(args.bin)
    failed = True
    try:
        run(case, os.path.abspath(args.work), args.name)
        failed = False
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-4000:]}\n--- prompts: {len(scripted.noted(daemon, 'prompts'))}, answers: {scripted.noted(daemon, 'answers')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
