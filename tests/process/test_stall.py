"""Engines that fall silent: who is judged by which limit, and a daemon that was stopped itself accuses nobody."""
import signal

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error, check_stream_error
from registry import test


@test("mute_engine_is_stalled")
def mute(case):
    daemon = case.daemon("mute.sh", engine={"stall_s": 3})
    plain = daemon.chat().wait_end(4 * SCALE)
    check_error(plain, 503, "engine_stalled", "engine.stall_s", "3 s")
    check(2.9 < plain.took_s < 4 * SCALE, "by 4 s", plain.took_s)
    check(daemon.metric("vigil_engine_kills_total", why="stall") == 1, "a kill is counted")
    stream = daemon.chat(stream=True, text="another").wait_end(4 * SCALE)
    check_error(stream, 503, "engine_stalled", "engine.stall_s")
    check(daemon.status()["engine"]["generation"] == 2, "the next request restarted it")
    check(not daemon.children() or daemon.status()["engine"]["state"] == "stopping", "nothing is left of it", daemon.everything())
    daemon.alive()


@test("silence_inside_an_answer_and_the_queue_behind_it")
def silence_inside(case):  # cases A5b, A5c
    for first, deltas in (([["silent"]], 0), ([["tokens", 2, 0.01], ["silent"]], 2)):
        daemon = case.daemon(engine={"stall_s": 2})
        daemon.fake.script(jobs=[first, [["answer", 3, 0.01]]])
        stalled = daemon.chat(stream=True)
        await_until(daemon.fake.generations, 5, "the first has the engine")
        behind = [daemon.chat(text="b"), daemon.chat(stream=True, text="c")]
        stalled.wait_end(2 + 1.5 * SCALE)
        if deltas:
            check_stream_error(stalled, deltas, 503, "engine_stalled", "engine.stall_s")
        else:
            check_error(stalled, 503, "engine_stalled", "engine.stall_s")
        for chat in behind:
            check_answer(chat.wait_end(10), case.letters.text(3))
        check(daemon.fake.starts == 2, "the engine was replaced", daemon.fake.log("start"))
        daemon.alive()


@test("busy_but_silent_is_ended_by_silence")
def burner(case):
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 4})
    daemon.fake.script(jobs=[[["burn", 0]]])
    chat = daemon.chat().wait_end(5 * SCALE)
    check_error(chat, 503, "engine_silent", "engine.silence_s", "4 s")
    check(3.9 < chat.took_s < 5 * SCALE, "not by stall_s", chat.took_s)
    check(daemon.metric("vigil_engine_kills_total", why="silence") == 1, "a kill is counted")
    daemon.alive()


@test("growing_prompt_progress_is_a_sign_of_life")
def prompt_progress(case):
    daemon = case.daemon(engine={"stall_s": 1.5, "silence_s": 1.5})
    daemon.fake.script(jobs=[[["pp", 8, 8, 0.5], ["answer", 3, 0]]])
    check_answer(daemon.chat().wait_end(10), case.letters.text(3))
    daemon.fake.script(jobs=[[step for _ in range(20) for step in ("PP 1 8 10 100", ["sleep", 0.3])]])
    check_error(daemon.chat(text="again").wait_end(1.8 + SCALE), 503, "engine_silent", "engine.silence_s")
    daemon.alive()


@test("stderr_is_life_for_stall_but_not_for_silence")
def stderr_noise(case):
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 3})
    daemon.fake.script(jobs=[[step for _ in range(40) for step in (["stderr", "thinking hard"], ["sleep", 0.25])]])
    chat = daemon.chat().wait_end(3 + SCALE)
    check_error(chat, 503, "engine_silent", "engine.silence_s")
    check(chat.took_s > 2.9, "not by stall_s", chat.took_s)
    daemon.alive()


@test("announced_wait_is_not_silence")
def announced_wait(case):
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 2})
    daemon.fake.script(jobs=[["SWAIT compile 2", ["burn", 3.0], ["answer", 3, 0]]])
    check_answer(daemon.chat().wait_end(10), case.letters.text(3))
    daemon.alive()


@test("gpu_engine_is_judged_by_silence_alone")
def gpu_word(case):
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 3})
    daemon.fake.script(ready="READY 4096 stop gpu", jobs=[[["silent"]]])
    chat = daemon.chat().wait_end(3 + SCALE)
    check_error(chat, 503, "engine_silent", "engine.silence_s")
    check(chat.took_s > 2.9, "not by stall_s", chat.took_s)
    daemon.alive()


@test("missing_beats_are_a_stall")
def missing_beats(case):
    daemon = case.daemon(engine={"stall_s": 60, "silence_s": 60})
    daemon.fake.script(ready="READY 4096 stop beat=300", jobs=[[["silent"]]])
    chat = daemon.chat().wait_end(0.9 + 1.5 * SCALE)
    check_error(chat, 503, "engine_stalled", "beat")
    daemon.alive()


@test("standing_beats_are_a_stall")
def standing_beats(case):
    daemon = case.daemon(engine={"stall_s": 60, "silence_s": 60, "step_s": 2})
    daemon.fake.script(ready="READY 4096 stop beat=100", idle=[["beats", 0.1, False]], jobs=[[["silent"]]])
    chat = daemon.chat().wait_end(2 + 1.5 * SCALE)
    check_error(chat, 503, "engine_stalled", "engine.step_s")
    check(chat.took_s > 1.9, "not before", chat.took_s)
    daemon.alive()


@test("moving_beats_outlast_the_stall_limit")
def moving_beats(case):
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 60, "step_s": 1})
    daemon.fake.script(ready="READY 4096 stop beat=100", idle=[["beats", 0.1, True]], jobs=[[["sleep", 3], ["answer", 3, 0]]])
    check_answer(daemon.chat().wait_end(10), case.letters.text(3))
    daemon.alive()


@test("stopped_daemon_accuses_nobody")
def stopped_daemon(case):
    stall_s = 2
    daemon = case.daemon(engine={"stall_s": stall_s})
    # The engine speaks once, then falls silent for less than stall_s; the daemon sleeps through that and much more.
    for tokens, every in ((60, 0.1), (5, 1.5)):
        daemon.fake.script(jobs=[[["answer", tokens, every]]])
        stream = daemon.chat(stream=True, text=f"{tokens}").wait_deltas(1)
        daemon.signal(signal.SIGSTOP)
        run_for(2 * stall_s)
        daemon.signal(signal.SIGCONT)
        check_answer(stream.wait_end(20), case.letters.text(tokens))
    status = daemon.status()["engine"]
    check(status["generation"] == 1 and daemon.metric("vigil_engine_kills_total") == 0, "nobody was killed", status)
    daemon.alive()


@test("stopped_engine_is_stalled_and_gone")
def stopped_engine(case):
    daemon = case.daemon(engine={"stall_s": 2, "stop_s": 1})
    daemon.fake.script(jobs=[[["answer", 60, 0.1]]])
    stream = daemon.chat(stream=True).wait_deltas(1)
    pid = daemon.status()["engine"]["pid"]
    import os
    os.kill(pid, signal.SIGSTOP)
    stream.wait_end(2 + 1.5 * SCALE)
    check(stream.stream_errors and stream.stream_errors[0]["code"] == "engine_stalled", "stalled", stream.events)
    await_until(lambda: procs.stat(pid) is None, 1 + SCALE, "a stopped engine is killed too")
    daemon.alive()
