#!/usr/bin/env python3
"""Client libraries from npm against the daemon with a scripted model: libraries.py --bin FOLDER --work FOLDER [shapes]."""
import argparse
import os
import shutil
import subprocess
import sys

import scripted
from scripted import HERE, SCALE

from harness import Case  # noqa: E402

RULES = [{"if": "sunny", "say": "It is sunny in Rome."},
         {"if": "weather in Rome", "say": '<think>I should look.</think><tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'},
         {"if": "Give me a person", "say": '{"name": "Ann", "age": 7}'},
         {"if": ".", "say": "Hello."}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("part", nargs="?", default="all", choices=["all", "shapes"], help="shapes: structured output, which needs an engine with grammars")
    args = parser.parse_args()
    case = Case(args.bin)
    failed = True
    try:
        daemon = scripted.serve(case, RULES)
        shutil.copy(os.path.join(HERE, "libraries.mjs"), args.work)
        done = subprocess.run(["node", "libraries.mjs", f"http://127.0.0.1:{daemon.port}", args.part], cwd=args.work, timeout=120 * SCALE, check=False)
        failed = done.returncode != 0
        if not failed:
            daemon.await_requests(running=0, queued=0)
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-4000:]}\n--- answers: {scripted.noted(daemon, 'answers')}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
