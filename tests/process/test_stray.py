"""A DONE that belongs to nobody, at the worst moment: found by chaos (tests/process/chaos.py)."""
from client import SCALE, await_until, check
from harness import check_answer
from registry import test


@test("stray_done_of_a_left_request_does_not_free_the_engine")
def stray(case):
    """The engine still works on the request whose client left; whoever gets the engine now would get its tokens too."""
    for ready in ("READY 4096", "READY 4096 stop"):
        daemon = case.daemon()
        daemon.fake.script(ready=ready, on_stop=0.6, jobs=[[["sleep", 0.3], "DONE 7 5 1 1 cancel", ["sleep", 0.3], ["tokens", 20, 0.01], ["done"]],
                                                           [["answer", 3, 0]]])
        leaver = daemon.chat(text="leaver", max_tokens=64)
        await_until(daemon.fake.generations, 5 * SCALE, "it has the engine")
        leaver.close()
        await_until(lambda: daemon.status()["totals"]["cancelled"] == 1, SCALE, "it is gone", 0.01)
        check_answer(daemon.chat(text="next").wait_end(10 * SCALE), case.letters.text(3))
        done = next(at for at, _, text in daemon.fake.log("sent", "DONE"))
        check(daemon.fake.generations()[1][0] >= done, "no GEN before the engine has answered for the one before", daemon.fake.log())
        daemon.alive()
