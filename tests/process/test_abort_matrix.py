"""The abort matrix of tools/bench/abort in short: each way to leave, in each phase, is one STOP or never reaches the engine."""
import os
import sys

from client import SCALE, check
from registry import test


@test("abort_matrix_in_short", limit_s=120)
def in_short(case):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench"))
    import abort_matrix
    cells = abort_matrix.run(case, 20, ("close", "reset"))  # counts are checked there
    check(len(cells) == 16 and all(len(cell.times_s) == 20 for cell in cells), "all trials", [(cell.name, len(cell.times_s)) for cell in cells])
    late = [(cell.name, max(cell.times_s)) for cell in cells if max(cell.times_s) > 0.5 * SCALE + 0.5]
    check(not late, "noticed within the limit for leaving", late)
