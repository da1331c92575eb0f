#!/usr/bin/env python3
"""Seeded chaos with the real daemon: each run is one life of a daemon that a seed has planned (chaos_plan.py), with clients that come and leave
in every way, engines that do everything wrong and faults from outside; afterwards all must have ended, been counted and be gone
(chaos_run.py). Prints the command that repeats a run that failed.

  tests/process/chaos.py --runs 2000 --seed 1 --jobs 8 [--daemon build/release/bin/vigil] [--factor 4]
"""
import argparse
import collections
import contextlib
import os
import shutil
import sys
import time
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True

HELD_UP_S = 1.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each further run takes the next")
    parser.add_argument("--jobs", type=int, default=1, help="daemons at once; they mostly wait")
    parser.add_argument("--daemon", default=os.path.relpath(os.path.join(FOLDER, "..", "..", "build", "release", "bin", "vigil")))
    parser.add_argument("--factor", type=float, default=float(os.environ.get("PROCESS_TEST_SCALE", "1")), help="stretches every limit, for slow builds")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many")
    parser.add_argument("--show", action="store_true", help="print the plan of --seed and run nothing")
    return parser.parse_args()


@contextlib.contextmanager
def worker(daemon, factor):
    """(case, descriptors of a clean daemon, factor)"""
    from chaos_run import clean_daemon_descriptors
    from harness import Case
    case = Case(os.path.dirname(os.path.abspath(daemon)))
    yield case, clean_daemon_descriptors(case), factor
    if not os.listdir(case.folder):  # else it holds what a failed run left
        os.rmdir(case.folder)


def run_seed(state, seed):
    """(seed, seconds, numbers, failure text or ""). A failed run in which we ourselves could not look for so long proves nothing: it is run again."""
    from client import HeldUp
    held_up = 0
    while True:
        HeldUp.forget()
        seed, took, numbers, failure = run_once(state, seed)
        if not failure or HeldUp.longest_s < HELD_UP_S * state[2] or held_up == 3:
            return seed, took, numbers + collections.Counter({"faults: held up, run again": held_up}), failure
        held_up += 1


def run_once(state, seed):
    import chaos_plan
    import chaos_run
    case, usual, factor = state
    started = time.monotonic()
    try:
        world = chaos_run.run(case, chaos_plan.make(seed, factor), factor, usual)
        shutil.rmtree(world.daemon.folder, ignore_errors=True)
        return seed, time.monotonic() - started, world.numbers, ""
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        world = getattr(error, "world", None)
        if world and world.daemon:
            text += f"\n--- {world.daemon.folder}, the daemon's log ends:\n{world.daemon.stderr()[-4000:]}\n--- the engine's log ends:\n"
            text += "\n".join(f"{at:.3f} {pid} {what}" for at, pid, what in world.daemon.fake.log()[-30:])
        return seed, time.monotonic() - started, collections.Counter(), text


def main():
    args = arguments()
    os.environ["PROCESS_TEST_SCALE"] = str(args.factor)
    if args.show:
        import pprint

        import chaos_plan
        pprint.pprint(chaos_plan.make(args.seed, args.factor), width=180)
        return 0
    started = time.monotonic()
    totals, slowest, failures, done = collections.Counter(), (0.0, 0), [], 0
    import workers
    seeds = ((seed,) for seed in range(args.seed, args.seed + args.runs))
    runs = workers.results(args.jobs, lambda: worker(args.daemon, args.factor), run_seed, seeds)
    for seed, took, numbers, failure in runs:
        done += 1
        totals.update(numbers)
        slowest = max(slowest, (took, seed))
        if failure:
            failures.append(seed)
            factor = f" --factor {args.factor:g}" if args.factor != 1 else ""
            print(f"FAILED seed {seed} after {took:.1f} s\n{failure}\nagain: tests/process/chaos.py --seed {seed} --daemon {args.daemon}{factor}", flush=True)
            if len(failures) >= args.failures:
                break
        elif done % 50 == 0:
            print(f"{done} runs in {time.monotonic() - started:.0f} s, {len(failures)} failed", flush=True)
    runs.close()
    print(f"{done} runs from seed {args.seed}, {len(failures)} failed {failures or ''}, {time.monotonic() - started:.0f} s, slowest {slowest[0]:.1f} s (seed {slowest[1]})")
    for group in ("ends", "requests", "errors", "engines", "faults"):
        print(f"  {group}: " + ", ".join(f"{name.split(': ')[1]} {count}" for name, count in sorted(totals.items()) if name.startswith(group + ": ")))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
