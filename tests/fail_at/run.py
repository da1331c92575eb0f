#!/usr/bin/env python3
"""Fails the daemon's N-th system call, for N = 1, 2, ... until a whole scenario makes fewer: it starts, answers a plain and a streamed request, loses a
client, shows its status and stops. Whatever fails, either the start is refused in one line with exit status 1, or every request ends, the daemon
answers again, and it stops cleanly with no child left. fail_at.c does the failing; a failure prints the command that repeats it.

  tests/fail_at/run.py --library build/release/tests/libfail_at.so [--daemon build/release/bin/vigil] [--kind proc] [--every 7] [--jobs 2] [--variants 4]
  tests/fail_at/run.py ... --at 123 --variant 0      one failure
"""
import argparse
import collections
import contextlib
import os
import shutil
import signal
import sys
import time
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
sys.path.insert(0, os.path.join(ROOT, "tests", "process"))
sys.dont_write_bytecode = True

import client  # noqa: E402
import workers  # noqa: E402
from client import SCALE, Conn, await_until, check  # noqa: E402
from harness import Case  # noqa: E402

LIMIT_S = 15 * SCALE       # for what a failure may delay: a new engine, a back-off, a connection that is not accepted at once
JOBS = [[("answer", 3, 0)], [("answer", 5, 0.002)], [("tokens", 2000, 0.01)]]


class Run:
    def __init__(self, case, library, kind, only, number, variant):
        self.case, self.number, self.variant = case, number, variant
        engine = {"start": "eager", "stop_s": 1, "ready_s": 6, "silence_s": 3, "stall_s": 2, "cancel_s": 1, "backoff_first_ms": 50, "backoff_max_s": 0.2,
                  "log": "engine.log"}
        config = {"drain_s": 1, "http": {"header_s": 3, "body_s": 3, "write_s": 2}}
        self.daemon = case.daemon("chaos_engine.py", engine=engine, config=config, wait=None)
        self.note = os.path.join(self.daemon.folder, "fail_at.log")
        self.daemon.env.update(LD_PRELOAD=library, FAIL_AT_N=str(number), FAIL_AT_VARIANT=str(variant), FAIL_AT_LOG=self.note, FAIL_AT_CLASS=kind, FAIL_AT_ONLY=only,
                               FAIL_AT_OPEN=os.path.join(self.daemon.folder, "engine.log"))
        with open(self.daemon.fake.path("plan"), "w", encoding="utf-8") as file:
            file.write(repr({"ids": case.letters.ids, "starts": [], "jobs": JOBS}))
        path = os.path.join(self.daemon.folder, "engine")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:  # a version manager's python3 starts ten times slower
            file.write(f"#!{os.path.realpath(sys.executable)} -SE\n" + text.partition("\n")[2])

    def notes(self):
        try:
            with open(self.note, encoding="utf-8") as file:
                return [line.rstrip("\n").split(" ", 4) for line in file]
        except FileNotFoundError:
            return []

    def failed(self):
        """What was made to fail so far: (name, error, of what), or None."""
        return next((tuple(words[2:] + [""])[:3] for words in self.notes() if words[0] == "failed"), None)

    def total(self):
        return next((int(words[1]) for words in self.notes() if words[0] == "total"), 0)

    def scenario(self):
        daemon = self.daemon
        daemon.start(wait=False)
        await_until(lambda: daemon.process.poll() is not None or self.listening(), LIMIT_S, "it listens, or has refused to start")
        if daemon.process.poll() is not None:
            return self.refused_start()
        self.answered("plain", stream=False)
        self.answered("streamed", stream=True)
        self.lost()
        self.until_answered("GET", "/status")
        self.until_answered("GET", "/health")
        self.served_again()
        daemon.signal(signal.SIGTERM)
        status = daemon.await_exit(daemon.stop_s + daemon.drain_s + 1 + 2 * SCALE)
        check(status == 0, f"exit status {status} after TERM", daemon.stderr()[-1500:])
        await_until(lambda: not daemon.everything(), 3 * SCALE, lambda: f"nothing is left: {daemon.everything()}", 0.02)

    def listening(self):
        try:
            return self.daemon.listening()
        except client.Failure:
            return None  # it has ended instead

    def refused_start(self):
        daemon = self.daemon
        lines = daemon.stderr().splitlines()
        expected = 2 if (self.failed() or ("", "", ""))[2].endswith("vigil.json") else 1  # a configuration that cannot be read
        check(daemon.process.returncode == expected, f"a start that cannot be is refused with exit status {expected}, not {daemon.process.returncode}", lines[-5:])
        told = [line for line in lines if line.startswith("vigil: ")]
        check(len(told) == 1 and len(told[0]) > 20, "one line says why", lines)
        check(self.failed(), "nothing had failed", lines)
        await_until(lambda: not daemon.everything(), 3 * SCALE, lambda: f"nothing is left: {daemon.everything()}", 0.02)

    def connect(self):
        """The daemon listens all the time; a connection that fails has no excuse."""
        return Conn(self.daemon.port)

    def try_once(self, method, path, body=None):
        """A request that ends within the limits: the connection with its reply, or one that was closed when the failure hit it."""
        conn = self.connect()
        try:
            conn.request(method, path, body)
        except OSError:
            conn.ended = conn.ended or "reset"
        await_until(lambda: conn.complete or conn.ended, LIMIT_S, f"{method} {path} ends; so far {conn.status} {bytes(conn.body[-200:])!r}")
        conn.close()
        return conn

    def answered(self, name, stream):
        """One request; only the failure excuses anything but its answer. Returns whether it was answered well."""
        body = {"messages": [{"role": "user", "content": name}], "max_tokens": 5, "stream": stream}
        conn = self.try_once("POST", "/v1/chat/completions", body)
        well = conn.complete and conn.status == 200 and (conn.said_done and not conn.stream_errors if stream else bool(conn.text()))
        check(well or self.failed(), f"the {name} request, although nothing had failed", conn.status, bytes(conn.body), conn.ended)
        if conn.complete and not well:
            error = conn.stream_errors[0] if conn.status == 200 and stream and conn.stream_errors else conn.json()["error"]
            check(error["code"] and error["message"], "an error that says why", bytes(conn.body))
        return well

    def lost(self):
        """A client that leaves in mid-stream."""
        conn = self.connect()
        try:
            conn.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "lost"}], "max_tokens": 1000, "stream": True})
        except OSError:
            conn.ended = conn.ended or "reset"
        await_until(lambda: len(conn.deltas) >= 2 or conn.complete or conn.ended, LIMIT_S, "it is in mid-stream, or has ended")
        conn.close()

    def until_answered(self, method, path):
        end = time.monotonic() + LIMIT_S
        while True:
            conn = self.try_once(method, path)
            if conn.complete and conn.status == 200:
                return conn
            check(self.failed() and time.monotonic() < end, f"{path} is answered", conn.status, conn.ended)

    def served_again(self):
        end = time.monotonic() + LIMIT_S
        for number in range(1000):
            if self.answered(f"again {number}", stream=False):
                break
            check(time.monotonic() < end, "a plain request works again")
        idle = self.until_answered("GET", "/status").json
        await_until(lambda: self.daemon.idle(idle()) or self.daemon.idle(self.until_answered("GET", "/status").json()), LIMIT_S, "nothing is open", 0.02)


@contextlib.contextmanager
def worker(args):
    case = Case(os.path.dirname(os.path.abspath(args.daemon)))
    yield case, os.path.abspath(args.library), args.kind, args.only
    if not os.listdir(case.folder):  # else it holds what a failed run left
        os.rmdir(case.folder)


def one(state, number, variant):
    """(number, variant, what failed or None, calls in all, problem or "")"""
    case, library, kind, only = state
    run = Run(case, library, kind, only, number, variant)
    problem = ""
    try:
        run.scenario()
    except Exception:
        problem = traceback.format_exc() + f"\n--- {run.daemon.folder}, the daemon's log ends:\n{run.daemon.stderr()[-3000:]}"
    finally:
        run.daemon.destroy()
        case.daemons.remove(run.daemon)
    found = number, variant, run.failed(), run.total(), problem
    if not problem:
        shutil.rmtree(run.daemon.folder, ignore_errors=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--daemon", default=os.path.join(ROOT, "build", "release", "bin", "vigil"))
    parser.add_argument("--kind", choices=["calls", "proc", ""], default="calls", help="proc: what reads /proc, calls: all else")
    parser.add_argument("--only", default="", help="only calls of this name")
    parser.add_argument("--every", type=int, default=1, help="fail each so-many-th call only")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--variants", type=int, default=1, help="of each call's plausible errors")
    parser.add_argument("--at", type=int, help="this call only")
    parser.add_argument("--variant", type=int, default=0)
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    args = parser.parse_args()
    started, hit, kinds, problems, numbers = time.monotonic(), 0, collections.Counter(), [], 0
    plain = next(workers.results(1, lambda: worker(args), one, [(0, 0)]))
    if plain[4] or not plain[3]:
        print(f"without any failure: {plain[4] or 'the library counted nothing'}")
        return 1
    print(f"the scenario makes {plain[3]} calls", flush=True)
    if args.at:
        cases = [(args.at, args.variant)]
    else:
        last = plain[3] * 2  # the number differs from run to run; the end is where nothing fails any more
        cases = [(number, number // args.every if args.variants == 1 else variant)
                for number in range(args.first, last, args.every) for variant in range(args.variants)]
    beyond = 0
    runs = workers.results(1 if args.at else args.jobs, lambda: worker(args), one, cases)
    for number, variant, what, _, problem in runs:
        numbers += 1
        hit += what is not None
        beyond = 0 if what else beyond + 1
        if what:
            kinds[what[0]] += 1
        if problem:
            problems.append(number)
            print(f"FAILED at call {number}, variant {variant}: {what}\n{problem}\nagain: tests/fail_at/run.py --library {args.library} --kind {args.kind} "
                  f"--only '{args.only}' --at {number} --variant {variant}", flush=True)
        elif numbers % 100 == 0:
            print(f"call {number} after {time.monotonic() - started:.0f} s, {len(problems)} problems", flush=True)
        if len(problems) >= args.failures or beyond >= 20:
            break
    runs.close()
    swept = "swept to the end" if beyond or args.at else "not swept to the end"
    print(f"{hit} failures in {numbers} runs, {swept}, {len(problems)} problems {problems or ''}, {time.monotonic() - started:.0f} s")
    print("  " + ", ".join(f"{name} {count}" for name, count in sorted(kinds.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
