#!/usr/bin/env python3
"""Runs a client library's test against the real daemon and engine: run.py --bin FOLDER --work FOLDER SCRIPT.mjs. The libraries lie in
the work folder (install.py)."""
import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "process"))

from client import SCALE  # noqa: E402
from harness import Case  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("script")
    args = parser.parse_args()
    shutil.copy(os.path.join(HERE, args.script), args.work)
    case = Case(args.bin)
    failed = True
    try:
        daemon = case.daemon(None, engine={"start": "eager", "stop_s": 5})
        daemon.await_engine("ready", 60)
        result = subprocess.run(["node", args.script, f"http://127.0.0.1:{daemon.port}", str(case.letters.end_id)], cwd=args.work, timeout=200 * SCALE, check=False)
        failed = result.returncode != 0
        if not failed:
            daemon.alive(fake=False)
    finally:
        case.close(failed)
        if failed:
            for daemon in case.daemons:
                print(f"--- the daemon's log:\n{daemon.stderr()[-6000:]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
