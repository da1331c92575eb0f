#!/usr/bin/env python3
"""Runs a client library's test against the real daemon and engine: run.py --bin FOLDER --work FOLDER SCRIPT.mjs. The libraries are
installed into the work folder with npm, in the versions of package.json; without node or npm the test fails."""
import argparse
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "process"))

from client import SCALE  # noqa: E402
from harness import Case  # noqa: E402


def install(work):
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
        wanted = json.load(file)["dependencies"]

    def installed(name):
        try:
            with open(os.path.join(work, "node_modules", name, "package.json"), encoding="utf-8") as file:
                return json.load(file)["version"]
        except OSError:
            return None
    os.makedirs(work, exist_ok=True)
    shutil.copy(os.path.join(HERE, "package.json"), work)
    if any(installed(name) != version for name, version in wanted.items()):
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"], cwd=work, check=True, timeout=240)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("script")
    args = parser.parse_args()
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            print(f"{tool} is missing: tools/setup --test installs it")
            return 1
    install(args.work)
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
