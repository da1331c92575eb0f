#!/usr/bin/env python3
"""Lists and runs the process tests: run.py --list; run.py --bin FOLDER NAME...; run.py --bin FOLDER --all.
A test is a function that a test_*.py file registers; its seconds are the hard limit that ctest gives it."""
import argparse
import importlib
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import registry  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="NAME|LIMIT_S a line")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--bin", help="folder with vigil and vigil-engine")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    for file in sorted(os.listdir(FOLDER)):
        if file.startswith("test_") and file.endswith(".py"):
            importlib.import_module(file[:-3])
    if args.list:
        for test in registry.TESTS.values():
            print(f"{test.name}|{test.limit_s}")
        return 0
    names = list(registry.TESTS) if args.all else args.names
    unknown = [name for name in names if name not in registry.TESTS]
    if not args.bin or not names or unknown:
        parser.error(f"unknown tests: {unknown}" if unknown else "--bin FOLDER and names are needed")
    return max(run(registry.TESTS[name], args.bin) for name in names)


def run(test, bin_folder):
    from harness import Case
    case = Case(bin_folder)
    started = time.monotonic()
    failed = True
    try:
        test.function(case)
        failed = False
    except Exception:
        traceback.print_exc()
    try:
        case.close(failed)
    except Exception:
        traceback.print_exc()
        failed = True
    if failed:
        for daemon in case.daemons:
            print(f"--- {daemon.folder}, the daemon's log:\n{daemon.stderr()[-6000:]}")
    print(f"{'FAILED' if failed else 'passed'} {test.name} in {time.monotonic() - started:.1f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
