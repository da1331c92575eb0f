"""The daemon's own end, by every signal: what requests get, the exit status, and that no process of the tree outlives it."""
import os
import signal
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error, check_stream_error
from registry import test


def killed_leaves_nothing(case, exe, processes, script=None, ready=False):
    daemon = case.daemon(exe, engine={"stop_s": 20})
    if script:
        daemon.fake.script(**script)
    chat = daemon.chat()
    await_until(lambda: len(daemon.children()) >= processes, 5 * SCALE, f"{processes} processes run, not {daemon.everything()}")
    if ready:
        daemon.await_engine("ready")
    victims = daemon.everything()
    check(len(victims) > processes, "the daemon, perhaps its keeper, and the children", victims)
    daemon.signal(signal.SIGKILL)
    await_until(lambda: not daemon.everything(), 2 * SCALE, f"nothing is left 2 s later: {daemon.everything()} of {victims}", 0.02)
    daemon.process.wait()
    chat.close()


@test("killed_daemon_takes_a_loading_script_along")
def kill_never_ready(case):
    killed_leaves_nothing(case, "never_ready.sh", 2)


@test("killed_daemon_takes_a_backgrounding_wrapper_along")
def kill_wrapper(case):
    killed_leaves_nothing(case, "backgrounding_wrapper.sh", 2)


@test("killed_daemon_takes_a_setsid_grandchild_along")
def kill_setsid(case):
    killed_leaves_nothing(case, "setsid_grandchild.sh", 2)


@test("killed_daemon_takes_stubborn_ones_along")
def kill_stubborn(case):
    killed_leaves_nothing(case, "fake_engine.py", 3, dict(load=[["grandchild"]], ignore_term=True, ignore_eof=True), ready=True)


@test("killed_daemon_takes_a_stopped_engine_along")
def kill_stopped(case):  # case A3: the fake is under SIGSTOP
    daemon = case.daemon()
    daemon.chat_until_answered()
    os.kill(daemon.status()["engine"]["pid"], signal.SIGSTOP)
    daemon.signal(signal.SIGKILL)
    await_until(lambda: not daemon.everything(), 2 * SCALE, f"nothing is left: {daemon.everything()}", 0.02)
    daemon.process.wait()


@test("killed_keeper_is_replaced")
def kill_keeper(case):
    daemon = case.daemon("setsid_grandchild.sh")
    chat = daemon.chat()
    daemon.await_engine("ready")

    def keepers():
        return [pid for pid in daemon.everything() if pid != daemon.pid and pid not in daemon.children()]
    first = await_until(keepers, 5 * SCALE, "a keeper runs")
    os.kill(first[0], signal.SIGKILL)
    await_until(lambda: keepers() and keepers() != first and not procs.zombies_of(daemon.pid), 5 * SCALE, "another keeper, and no zombie", 0.02)
    check(daemon.get("/health").status == 200 and daemon.status()["engine"]["generation"] == 1, "the daemon and its engine go on")
    daemon.signal(signal.SIGKILL)
    await_until(lambda: not daemon.everything(), 2 * SCALE, f"nothing is left: {daemon.everything()}", 0.02)
    daemon.process.wait()
    chat.close()


@test("term_while_a_load_hangs")
def term_loading(case):  # S16
    for exe, script in (("never_ready.sh", {}), ("fake_engine.py", dict(load=[["grandchild"]], ready=None, ignore_term=True))):
        daemon = case.daemon(exe, engine={"stop_s": 2})
        daemon.fake.script(**script)
        chats = [daemon.chat(), daemon.chat(stream=True)]
        daemon.await_requests(loading=2)
        await_until(lambda: len(daemon.children()) >= 2, 5 * SCALE, "the tree runs")
        asked = time.monotonic()
        daemon.signal(signal.SIGTERM)
        for chat in chats:
            chat.wait_end(SCALE)
            check_error(chat, 503, "shutting_down")
        check(daemon.await_exit(2 + SCALE) == 0, "exit 0", daemon.stderr()[-1000:])
        check(time.monotonic() - asked < 2 + SCALE, "within stop_s + 1 s")
        await_until(lambda: not daemon.everything(), SCALE, f"nothing is left: {daemon.everything()}", 0.02)


@test("term_with_every_kind_of_engine")
def term_kinds(case):  # case A3
    stubborn = dict(load=[["grandchild"]], ignore_term=True, ignore_eof=True)
    for exe, script in (("fake_engine.py", None), ("mute.sh", None), ("backgrounding_wrapper.sh", None), ("setsid_grandchild.sh", None),
                        ("fake_engine.py", stubborn)):
        daemon = case.daemon(exe, engine={"stop_s": 2, "start": "eager"})
        if script:
            daemon.fake.script(**script)
        await_until(lambda: daemon.children(), 5 * SCALE, "a child runs")
        run_for(0.5)
        asked = time.monotonic()
        daemon.stop(limit_s=2 + SCALE)
        print(f"{exe} {'stubborn' if script else ''}: gone after {time.monotonic() - asked:.2f} s")


@test("term_while_the_engine_is_stopped")
def term_stopped(case):
    daemon = case.daemon(engine={"stop_s": 2})
    daemon.chat_until_answered()
    os.kill(daemon.status()["engine"]["pid"], signal.SIGSTOP)
    daemon.stop(limit_s=2 + SCALE)


@test("term_lets_running_requests_finish")
def drain(case):
    daemon = case.daemon(config={"drain_s": 10})
    daemon.fake.script(jobs=[[["answer", 20, 0.1]]])
    running = daemon.chat(stream=True).wait_deltas(2)
    waiting = [daemon.chat(text="b"), daemon.chat(text="c", stream=True)]
    daemon.await_requests(queued=2)
    daemon.signal(signal.SIGTERM)
    for chat in waiting:
        chat.wait_end(SCALE)
        check_error(chat, 503, "shutting_down")
    check_answer(running.wait_end(10), case.letters.text(20))
    check(daemon.await_exit(3 + SCALE) == 0, "exit 0")
    check(not daemon.fake.stops(), "no STOP for a request that finished", daemon.fake.log())
    await_until(lambda: not daemon.everything(), SCALE, f"nothing is left: {daemon.everything()}", 0.02)


@test("drain_ends_at_its_limit")
def drain_limit(case):
    daemon = case.daemon(config={"drain_s": 1}, engine={"stop_s": 2})
    daemon.fake.script(jobs=[[["answer", 1000, 0.05]]])
    stream = daemon.chat(stream=True, max_tokens=2000).wait_deltas(2)
    asked = time.monotonic()
    daemon.signal(signal.SIGTERM)
    stream.wait_end(1 + SCALE)
    check_stream_error(stream, len(stream.deltas), 503, "shutting_down", "drain_s")
    check(stream.complete_at - asked > 0.9, "not before drain_s", stream.complete_at - asked)
    check(daemon.await_exit(2 + SCALE) == 0, "exit 0")
    await_until(lambda: not daemon.everything(), SCALE, f"nothing is left: {daemon.everything()}", 0.02)


@test("second_signal_cuts_the_drain")
def second_signal(case):
    daemon = case.daemon(config={"drain_s": 60}, engine={"stop_s": 2})
    daemon.fake.script(jobs=[[["answer", 1000, 0.05]]])
    stream = daemon.chat(stream=True, max_tokens=2000).wait_deltas(2)
    daemon.signal(signal.SIGINT)
    run_for(0.5)
    check(not stream.complete, "draining")
    daemon.signal(signal.SIGINT)
    stream.wait_end(SCALE)
    check_stream_error(stream, len(stream.deltas), 503, "shutting_down")
    check(daemon.await_exit(2 + SCALE) == 0, "exit 0")


@test("hangup_rereads_the_configuration")
def hangup(case):
    daemon = case.daemon(config={"queue": {"limit": 1}})
    daemon.fake.script(jobs=[[["answer", 200, 0.05]]])
    daemon.chat(stream=True, max_tokens=2000).wait_deltas(1)
    daemon.config["queue"]["limit"] = "many"
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    await_until(lambda: "queue.limit" in daemon.stderr(), 5 * SCALE, "a bad file is logged")
    check(daemon.status()["requests"]["limit"] == 1, "and changes nothing")
    with open(os.path.join(daemon.folder, "vigil.json"), "w", encoding="utf-8"):
        pass  # as an editor that has emptied the file and not written it yet
    daemon.signal(signal.SIGHUP)
    await_until(lambda: "is empty" in daemon.stderr(), 5 * SCALE, "an empty file is logged")
    check(daemon.status()["requests"]["limit"] == 1, "and changes nothing either")
    daemon.config["queue"]["limit"] = 7
    daemon.write_config()
    daemon.signal(signal.SIGHUP)
    await_until(lambda: daemon.status()["requests"]["limit"] == 7, 5 * SCALE, "a good one holds")
    daemon.alive()


@test("signals_in_a_storm")
def storm(case):
    daemon = case.daemon()
    for _ in range(50):
        daemon.signal(signal.SIGHUP)
        daemon.signal(signal.SIGPIPE)
    daemon.alive()
    children = daemon.children()
    check(all(procs.stat(pid) for pid in children), "the engine lives", children)
