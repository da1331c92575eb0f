"""Engines that die or say ERR: what the request gets, that the reason is the true one, and how starts are held back."""
import os
import signal
import time

from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error, check_stream_error
from registry import test


@test("segfault_in_mid_answer")
def segfault(case):  # cases A4, H4
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 3, 0.05], ["die", 11]]])
    stream = daemon.chat(stream=True).wait_end(5 * SCALE)
    check_stream_error(stream, 3, 503, "engine_crashed", "signal 11", "SEGV")
    plain = daemon.chat(text="plain").wait_end(5 * SCALE)
    check_error(plain, 503, "engine_crashed", "signal 11", "SEGV")
    totals = daemon.status()["totals"]
    check(totals["failed"] == 2 and totals["served"] == 0, "counted as failed", totals)
    check(daemon.metric("vigil_requests_total", outcome="failed") == 2, "in the metrics too")
    daemon.alive()


@test("killed_in_mid_answer")
def killed(case):  # S10
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["stderr", "about to run out of memory"], ["tokens", 2, 0.05], ["die", 9]], [["answer", 3, 0]]])
    stream = daemon.chat(stream=True).wait_end(5 * SCALE)
    check_stream_error(stream, 2, 503, "engine_crashed", "signal 9", "KILL", "about to run out of memory")
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    check(daemon.status()["engine"]["generation"] == 2, "restarted by the next request")
    daemon.alive()


@test("exit_in_mid_answer")
def exits(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 2, 0], ["exit", 0]]])
    check_stream_error(daemon.chat(stream=True).wait_end(5 * SCALE), 2, 503, "engine_crashed", "status 0")
    daemon.alive()


@test("err_ends_the_request_at_once")
def err(case):  # S8, case A5f
    daemon = case.daemon()
    daemon.fake.script(jobs=[["ERR the prompt is not to my taste"], [["tokens", 2, 0], "ERR lost the thread"], [["answer", 3, 0]]])
    plain = daemon.chat().wait_end(2 * SCALE)
    check_error(plain, 503, "engine_error", "the prompt is not to my taste")
    check(plain.took_s < 0.2 + 2 * SCALE, "at once", plain.took_s)
    check_stream_error(daemon.chat(stream=True, text="b").wait_end(2 * SCALE), 2, 503, "engine_error", "lost the thread")
    check_answer(daemon.chat(text="c").wait_end(), case.letters.text(3))
    check(daemon.fake.starts == 1 and not daemon.fake.stops(), "the same engine, and no STOP", daemon.fake.log())
    daemon.alive()


@test("err_then_exit_gives_both_reasons")
def err_exit(case):  # S9
    daemon = case.daemon()
    daemon.fake.script(jobs=[["ERR no memory for the cache", ["sleep", 0.05], ["exit", 3]]])
    error = check_error(daemon.chat().wait_end(2 * SCALE), 503, "engine_error", "no memory for the cache", "status 3")
    check("3" in error["message"], "the exit status", error)
    daemon.fake.script(jobs=[[["tokens", 1, 0], "FATAL the device is gone", ["exit", 4]]])
    stream = daemon.chat(stream=True, text="b").wait_end(5 * SCALE)
    check(stream.stream_errors and "the device is gone" in stream.stream_errors[0]["message"], "FATAL's words", stream.events)
    check("status 4" in stream.stream_errors[0]["message"], "and the status", stream.events)
    daemon.alive()


@test("crash_loop_holds_starts_back")
def crash_loop(case):  # S11
    daemon = case.daemon(engine={"backoff_first_ms": 2000, "backoff_max_s": 2})
    daemon.fake.script(jobs=[[["die", 11]]])
    for i in range(2):  # READY each time, which resets nothing; the first failure leaves the next start free
        check_error(daemon.chat(text=f"crash {i}").wait_end(5 * SCALE), 503, "engine_crashed", "signal 11")
        await_until(lambda: daemon.status()["engine"]["state"] in ("failed", "backoff"), 5, "settled", 0.02)
    status = daemon.await_engine("backoff")
    check(status["engine"]["retry_in_s"] > 0, "blocked for a while", status)
    for stream in (False, True):
        refused = daemon.chat(text="third", stream=stream).wait_end(SCALE)
        check_error(refused, 503, "engine_crash_loop")
        check(refused.took_s < 0.3 * SCALE and 1 <= float(refused.headers["retry-after"]) <= 3, "at once", refused.took_s, refused.headers)
    check(daemon.fake.starts == 2, "no start for it", daemon.fake.log("start"))
    daemon.fake.script()
    await_until(lambda: daemon.status()["engine"]["state"] != "backoff" or daemon.status()["engine"]["retry_in_s"] <= 0, 4 * SCALE, "the block ends", 0.05)
    check_answer(daemon.chat(text="fourth").wait_end(), case.letters.text(3))
    # A finished answer reset the count: the next failure leaves the start free again.
    daemon.fake.script(jobs=[[["die", 11]], [["answer", 3, 0]]])
    check_error(daemon.chat(text="fifth").wait_end(5 * SCALE), 503, "engine_crashed")
    check_answer(daemon.chat(text="sixth").wait_end(), case.letters.text(3))
    daemon.alive()


@test("request_that_crashes_engines_is_refused")
def crashes_engine(case):
    daemon = case.daemon(engine={"backoff_first_ms": 50, "backoff_max_s": 0.1})
    daemon.fake.script(jobs=[[["die", 11]], [["die", 11]], [["answer", 3, 0]]])
    for _ in range(2):
        check_error(daemon.chat(text="poison").wait_end(5 * SCALE), 503, "engine_crashed")
        await_until(lambda: daemon.status()["engine"]["state"] == "failed" or daemon.status()["engine"]["retry_in_s"] <= 0, 5, "free to start", 0.02)
    starts = daemon.fake.starts
    check_error(daemon.chat(text="poison").wait_end(2 * SCALE), 422, "request_crashes_engine")
    check(daemon.fake.starts == starts, "no engine for it")
    daemon.chat_until_answered()
    check_error(daemon.chat(text="poison").wait_end(2 * SCALE), 422, "request_crashes_engine")
    daemon.alive()


@test("closed_stdout_is_a_death")
def closed_stdout(case):  # S19, case A5d
    daemon = case.daemon()
    daemon.fake.script(idle=[["sleep", 0.5], ["close_stdout"]], ignore_eof=True)
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    pid = daemon.status()["engine"]["pid"]
    status = daemon.await_engine("failed", 3)
    check(time.monotonic() - daemon.fake.log("start")[0][0] < 0.5 + 2 * SCALE, "within 1 s", status)
    check(pid not in daemon.children(), "killed and reaped", daemon.everything())
    daemon.fake.script(jobs=[[["tokens", 2, 0], ["close_stdout"]]], ignore_eof=True)
    stream = daemon.chat(stream=True, text="b").wait_end(3 * SCALE)
    check_stream_error(stream, 2, 503, "engine_crashed")
    daemon.alive()


@test("half_a_line_then_death")
def half_line(case):  # S18, case A2c
    daemon = case.daemon()
    ids = case.letters.ids
    daemon.fake.script(jobs=[[["tokens", 2, 0.02], ["bytes", f"T {ids[2]}"], ["sleep", 0.2], ["exit", 5]]])
    stream = daemon.chat(stream=True).wait_end(5 * SCALE)
    check(stream.stream_errors and "status 5" in stream.stream_errors[0]["message"], "one error with the status", stream.events)
    check(2 <= len(stream.deltas) <= 3 and not stream.said_done and not stream.finish_reasons, "the whole lines, each once", stream.events)
    daemon.alive()


@test("engine_that_ignores_term_is_killed")
def ignores_term(case):  # S14
    daemon = case.daemon(engine={"stall_s": 1, "stop_s": 1.5})
    daemon.fake.script(jobs=[[["grandchild"], ["silent"]]], ignore_term=True, ignore_eof=True, on_stop="ignore")
    chat = daemon.chat().wait_end(1 + 1.5 * SCALE)
    check_error(chat, 503, "engine_stalled")
    check(len(daemon.children()) >= 2, "the tree still lives", daemon.everything())
    status = daemon.status()["engine"]
    check(status["state"] == "stopping" and status["pid"] > 0, "shown as stopping", status)
    daemon.await_no_children(1.5 + SCALE)
    daemon.await_engine("failed")
    daemon.alive()


@test("waiters_behind_a_dying_engine_get_the_next_one")
def waiters(case):  # S12: loading also while the old one is stopping
    daemon = case.daemon(engine={"stall_s": 1, "stop_s": 1.5})
    daemon.fake.script(jobs=[[["silent"]], [["answer", 3, 0]]], ignore_term=True, ignore_eof=True, on_stop="ignore")
    first = daemon.chat()
    await_until(daemon.fake.generations, 5 * SCALE, "the first has the engine")
    queued = daemon.chat(text="queued")
    first.wait_end(1 + 1.5 * SCALE)
    late = [daemon.chat(text="late"), daemon.chat(text="late stream", stream=True)]
    check(daemon.status()["engine"]["state"] == "stopping", "still going down", daemon.status())
    for chat in [queued, *late]:
        check_answer(chat.wait_end(10 * SCALE), case.letters.text(3))
    check(daemon.fake.starts == 2, "one new engine for all", daemon.fake.log("start"))
    daemon.alive()


@test("only_the_killed_generation_ends")
def killed_by_hand(case):
    daemon = case.daemon()
    daemon.fake.script(ready="READY 4096 stop ids slots=2", jobs=[[["answer", 40, 0.1]]])
    both = [daemon.chat(stream=True, text=f"s{i}").wait_deltas(2) for i in range(2)]
    check(daemon.status()["requests"]["running"] == 2, "two run at once")
    os.kill(daemon.status()["engine"]["pid"], signal.SIGKILL)
    for stream in both:
        stream.wait_end(3 * SCALE)
        check_stream_error(stream, len(stream.deltas), 503, "engine_crashed", "signal 9")
    run_for(0.2)
    daemon.alive()
