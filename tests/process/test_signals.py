"""Signals to the daemon that come at a bad moment."""
import os
import signal
import time

from client import SCALE, await_until, check
from registry import test


@test("every_further_term_leaves_a_stop_clean")
def many_terms(case):
    """A TERM that comes when the daemon has already left its loop may not turn exit status 0 into a death by signal."""
    for _ in range(5):
        daemon = case.daemon()
        daemon.chat_until_answered()
        end = time.monotonic() + daemon.stop_s + SCALE
        daemon.signal(signal.SIGTERM)
        while os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            check(time.monotonic() < end, "the daemon ends in time")
            daemon.signal(signal.SIGTERM)
        check(daemon.await_exit(1) == 0, f"exit status {daemon.process.returncode}", daemon.stderr()[-500:])
        await_until(lambda: not daemon.everything(), 2, "nothing is left", 0.02)
