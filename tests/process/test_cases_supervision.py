"""Cases A1 to A5: engines that die while they load or idle, flood, leave a tree behind, crash in mid-answer, or live and do nothing."""
import os
import signal
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import FAKES, check_answer, check_error, check_stream_error
from registry import test

T_STOP = 2


def unload(daemon):
    return daemon.request("POST", "/v1/unload")


# ---- A1

@test("A1_engine_killed_while_it_loads")
def killed_while_it_loads(case):
    daemon = case.daemon()
    daemon.fake.script(load=["INFO load=0.1", ["sleep", 0.3], ["die", 9]])
    chats = [daemon.chat(stream=i < 2, text=f"hi {i}") for i in range(4)]
    for chat in chats:
        chat.wait_end(5 * SCALE)
        error = check_error(chat, 503, "engine_start_failed", "signal 9")
        check("choices" not in chat.json() and error["type"], "never an answer beside it", chat.json())
    died = daemon.fake.log("start")[0][0] + 0.3
    check(max(chat.complete_at for chat in chats) - died < SCALE, "within 1 s of the death")
    check(daemon.fake.starts == 1, "one start for all four", daemon.fake.log("start"))
    daemon.fake.script()
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    check(daemon.fake.starts == 2, "one more start on the next request", daemon.fake.log("start"))
    daemon.alive()


@test("A1_engine_dies_while_idle")
def dies_while_idle(case):
    daemon = case.daemon()
    daemon.fake.script(idle=[["sleep", 5], ["die", 9]])
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    daemon.await_engine("ready")
    died = daemon.fake.log("sent", "READY")[0][0] + 5
    status = await_until(lambda: (s := daemon.status())["engine"]["state"] != "ready" and s, 5 + 2 * SCALE, "the status shows it", 0.02)
    check(time.monotonic() - died < SCALE, "within 1 s", time.monotonic() - died)
    check(status["engine"]["state"] == "failed" and "signal 9" in status["engine"]["reason"], "failed, with the signal", status)
    check(daemon.fake.starts == 1, "a lazy engine waits for a request")
    daemon.alive()
    check(daemon.fake.starts == 2, "one more start")


# ---- A2

@test("A2_log_flood_before_ready")
def flood(case):
    daemon = case.daemon()
    check(daemon.get("/health").status == 200, "up")
    daemon.fake.script(load=[["stderr_bytes", 8 << 20], ["stderr_lines", 200000]], jobs=[[["answer", 3, 0]], [["stderr", "the last thing it said"], ["die", 11]]])
    before = procs.memory_kib(daemon.pid, "VmRSS")
    procs.forget_peak_memory(daemon.pid)
    check_answer(daemon.chat().wait_end(20 * SCALE), case.letters.text(3))
    grown = procs.memory_kib(daemon.pid, "VmHWM") - before
    check(grown < 32 * 1024 or SCALE > 1, "memory grows by less than 32 MiB", grown)
    check_error(daemon.chat(text="b").wait_end(5 * SCALE), 503, "engine_crashed", "the last thing it said")
    daemon.alive()


@test("A2_line_of_64_mib_between_tokens")
def endless_line(case):
    daemon = case.daemon()
    daemon.chat_until_answered()
    for stream in (True, False):
        daemon.fake.script(jobs=[[["tokens", 1, 0], ["big", 64 << 20], ["answer", 2, 0]]])
        before = procs.memory_kib(daemon.pid, "VmRSS")
        procs.forget_peak_memory(daemon.pid)
        chat = daemon.chat(stream=stream, text=f"{stream}").wait_end(20 * SCALE)
        grown = procs.memory_kib(daemon.pid, "VmHWM") - before
        check(grown < 64 + 16 * 1024 or SCALE > 1, "memory stays under the line cap plus 16 MiB", grown)
        check_answer(chat, case.letters.text(3))  # the line is dropped, the tokens around it are not
        check("line" in daemon.stderr(), "and said in the log", daemon.stderr()[-500:])
    check(daemon.fake.starts == 1, "one engine", daemon.fake.log("start"))
    daemon.alive()


@test("A2_broken_and_joined_lines")
def broken_lines(case):
    daemon = case.daemon()
    ids, text = case.letters.ids, case.letters.text
    # A text line with a 4-byte character, one byte every 50 ms.
    daemon.fake.script(jobs=[[["drip", "ERR broken \U0001f600 engine\n", 0.05]]])
    check_error(daemon.chat(text="a").wait_end(5 * SCALE), 503, "engine_error", "broken \U0001f600 engine")
    # The character as tokens of a byte each, their lines dripping too.
    face = [case.letters.byte_ids[byte] for byte in "\U0001f600".encode()]
    for stream in (True, False):
        daemon.fake.script(jobs=[[*[["drip", f"T {token}\n", 0.01] for token in face], "DONE 4 5 1 1 stop"]])
        check_answer(daemon.chat(stream=stream, text=f"b {stream}").wait_end(5 * SCALE), "\U0001f600", "stop")
    # Two lines in one write, one with CR LF, a line whose end comes later: each counts once.
    daemon.fake.script(jobs=[[["bytes", f"T {ids[0]}\nT {ids[1]}\n"], ["bytes", f"T {ids[2]}\r\n"], ["bytes", f"T {ids[3]}"], ["sleep", 0.1],
                              ["bytes", "\nDONE 4 5 1 1 stop\r\n"]]])
    reply = daemon.chat(text="c").wait_end(5 * SCALE)
    check_answer(reply, text(4), "stop")
    check(reply.json()["usage"]["completion_tokens"] == 4, "each line counts once", reply.json()["usage"])
    check(daemon.fake.starts == 1, "one engine all the time", daemon.fake.log("start"))
    # A last line without its end, then exit: half a line is none, and the exit is what the client is told.
    daemon.fake.script(jobs=[[["tokens", 2, 0.02], ["bytes", f"T {ids[2]}"], ["sleep", 0.2], ["exit", 5]]])
    stream = daemon.chat(stream=True, text="d").wait_end(5 * SCALE)
    check_stream_error(stream, 2, 503, "engine_crashed", "status 5")
    daemon.alive()


@test("A2_nul_bytes_in_lines")
def nul_bytes(case):
    daemon = case.daemon()
    ids = case.letters.ids
    daemon.fake.script(jobs=[[["bytes", "ERR before\0after\n"]], [["bytes", f"T {ids[0]}\n\0\0\nT {ids[1]}\n"], "DONE 2 5 1 1 stop"],
                             [["bytes", f"T {ids[0]}\n"], ["bytes", "FATAL it\0 broke\n"], ["exit", 3]]])
    check_error(daemon.chat(text="a").wait_end(5 * SCALE), 503, "engine_error", "before", "after")
    check_answer(daemon.chat(text="b").wait_end(5 * SCALE), case.letters.text(2), "stop")
    check_error(daemon.chat(text="c").wait_end(5 * SCALE), 503, "engine_error", "it", "broke", "status 3")
    daemon.alive()


# ---- A3: a shell that starts the fake in the background and waits

KINDS = {"ignores_term": dict(ignore_term=True, ignore_eof=True), "setsid": dict(ignore_eof=True), "stopped": {}}


def wrapped(case, kind, **options):
    daemon = case.daemon("backgrounding_wrapper.sh", wait=None, engine={"stop_s": T_STOP, "args": []}, **options)
    fake = os.path.join(daemon.folder, "fake_engine.py")
    daemon.put(os.path.join(FAKES, "fake_engine.py"), "fake_engine.py")
    daemon.config["engine"]["args"] = ["setsid", fake] if kind == "setsid" else [fake]
    daemon.write_config()
    daemon.start()
    daemon.fake.script(load=[["grandchild"]], **KINDS[kind])
    check_answer(daemon.chat().wait_end(10 * SCALE), case.letters.text(3))
    tree = daemon.children()
    check(len(tree) >= 3, "the shell, the fake and its grandchild, which holds stdout", daemon.everything())
    if kind == "stopped":
        os.kill(daemon.fake.log("start")[-1][1], signal.SIGSTOP)
    return daemon


def unload_ends_the_tree(case, kind):
    daemon = wrapped(case, kind)
    asked = time.monotonic()
    reply = unload(daemon)
    daemon.await_no_children(T_STOP + SCALE)
    check(time.monotonic() - asked < T_STOP + SCALE, "the whole tree is gone", time.monotonic() - asked)
    check(reply.wait_end(SCALE).status == 200, "unloaded", bytes(reply.body))
    status = daemon.status()["engine"]
    check(status["state"] == "unloaded" and status["pid"] == 0, "stopped, not stopping", status)
    daemon.alive()


def term_ends_the_tree(case, kind):
    daemon = wrapped(case, kind)
    daemon.stop(limit_s=T_STOP + SCALE)  # checks that nothing is left


def kill_ends_the_tree(case, kind):
    daemon = wrapped(case, kind)
    daemon.signal(signal.SIGKILL)
    await_until(lambda: not daemon.everything(), 2 * SCALE, lambda: f"the engine leaves by itself within 2 s: {daemon.everything()}", 0.02)
    daemon.process.wait()


for a_kind in KINDS:
    test(f"A3_unload_ends_the_tree_{a_kind}")(lambda case, kind=a_kind: unload_ends_the_tree(case, kind))
    test(f"A3_term_ends_the_tree_{a_kind}")(lambda case, kind=a_kind: term_ends_the_tree(case, kind))
    test(f"A3_kill_ends_the_tree_{a_kind}")(lambda case, kind=a_kind: kill_ends_the_tree(case, kind))


# ---- A4

@test("A4_crash_in_mid_answer")
def crash(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 3, 0.05], ["die", 11]]])
    stream = daemon.chat(stream=True).wait_end(5 * SCALE)
    check_stream_error(stream, 3, 503, "engine_crashed", "signal 11")
    check(not [chunk for chunk in stream.data if any(choice.get("finish_reason") for choice in chunk.get("choices", []))], "no finish_reason", stream.events)
    plain = daemon.chat(text="plain").wait_end(5 * SCALE)
    check_error(plain, 503, "engine_crashed", "signal 11")
    totals = daemon.status()["totals"]
    check(totals["failed"] == 2 and totals["served"] == 0, "counted as failed", totals)
    check(daemon.metric("vigil_requests_total", outcome="failed") == 2, "in the metrics too")
    daemon.alive()


# ---- A5: two more requests behind each

def replaced(daemon, case, chats, starts):
    """The engine was replaced, and the queue ran."""
    for chat in chats:
        check_answer(chat.wait_end(15 * SCALE), case.letters.text(3))
    check(daemon.fake.starts == starts, f"{starts} starts", daemon.fake.log("start"))


def not_ready_meanwhile(daemon):
    reply = daemon.get("/ready")
    check(reply.status == 503 and reply.json()["engine"] in ("stopping", "starting"), "readiness is false meanwhile", reply.status, bytes(reply.body))


@test("A5a_never_ready")
def never_ready(case):
    daemon = case.daemon(engine={"ready_s": 2, "stop_s": T_STOP})
    daemon.fake.script(ready=None, load=[["stderr", "waiting for a device"]])
    chats = [daemon.chat(text="first"), daemon.chat(text="second"), daemon.chat(stream=True, text="third")]
    daemon.await_requests(loading=3)
    not_ready_meanwhile(daemon)
    for chat in chats:
        chat.wait_end(2 + SCALE)
        check_error(chat, 503, "engine_not_ready", "engine.ready_s", "2 s")
        check(chat.took_s > 1.9, "at the limit", chat.took_s)
    daemon.fake.script()
    replaced(daemon, case, [daemon.chat(text="fourth"), daemon.chat(stream=True, text="fifth")], 2)
    daemon.alive()


def silent_engine(case, job, deltas):
    for streamed in (True, False):
        daemon = case.daemon(engine={"stall_s": 2, "stop_s": T_STOP})
        daemon.fake.script(jobs=[job, [["answer", 3, 0.01]]], ignore_term=True)
        first = daemon.chat(stream=streamed)
        await_until(daemon.fake.generations, 5 * SCALE, "it has the engine")
        behind = [daemon.chat(text="b"), daemon.chat(stream=True, text="c")]
        daemon.await_requests(queued=2)
        first.wait_end(2 + 1.5 * SCALE)
        not_ready_meanwhile(daemon)
        if deltas and streamed:
            check_stream_error(first, deltas, 503, "engine_stalled", "engine.stall_s")
        else:
            check_error(first, 503, "engine_stalled", "engine.stall_s")
        replaced(daemon, case, behind, 2)
        daemon.alive()


@test("A5b_ready_then_nothing_for_a_job")
def nothing_for_a_job(case):
    silent_engine(case, [["silent"]], 0)


@test("A5c_two_tokens_then_silence")
def two_then_silence(case):
    silent_engine(case, [["tokens", 2, 0.01], ["silent"]], 2)


@test("A5d_closes_its_stdout_and_lives_on")
def closes_stdout(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["sleep", 0.5], ["close_stdout"], ["silent"]], [["answer", 3, 0.01]]], ignore_eof=True)
    first = daemon.chat()
    await_until(daemon.fake.generations, 5 * SCALE, "it has the engine")
    closed = daemon.fake.generations()[0][0] + 0.5
    behind = [daemon.chat(text="b"), daemon.chat(stream=True, text="c")]
    daemon.await_requests(queued=2)
    first.wait_end(0.5 + 1.5 * SCALE)
    check_error(first, 503, "engine_crashed", "closed its output")
    check(first.complete_at - closed < SCALE, "within 1 s", first.complete_at - closed)
    replaced(daemon, case, behind, 2)
    daemon.alive()


@test("A5d_closes_its_stdout_while_idle")
def closes_stdout_idle(case):
    daemon = case.daemon()
    daemon.fake.script(idle=[["sleep", 0.5], ["close_stdout"]], ignore_eof=True)
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    closed = daemon.fake.log("sent", "READY")[0][0] + 0.5
    status = daemon.await_engine("failed", 3)
    check(time.monotonic() - closed < SCALE and "closed its output" in status["engine"]["reason"], "a death, within 1 s", time.monotonic() - closed, status)
    daemon.fake.script()
    replaced(daemon, case, [daemon.chat(text="a"), daemon.chat(stream=True, text="b")], 2)
    daemon.alive()


@test("A5e_says_farewell_and_stays")
def farewell(case):
    daemon = case.daemon(engine={"stop_s": T_STOP})
    daemon.fake.script(farewell="INFO goodbye", ignore_term=True, ignore_eof=True)
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    asked = time.monotonic()
    reply = unload(daemon)
    await_until(lambda: daemon.status()["engine"]["state"] == "stopping", SCALE, "it is asked to go")
    old = set(daemon.children())
    daemon.fake.script()
    behind = [daemon.chat(text="a"), daemon.chat(stream=True, text="b")]  # they wait for the next engine
    not_ready_meanwhile(daemon)
    check(reply.wait_end(T_STOP + SCALE).status == 200, "unloaded", bytes(reply.body))
    took = reply.complete_at - asked
    check(T_STOP - 0.2 < took < T_STOP + SCALE, "killed after T_stop", took)
    check(not old & set(daemon.children()), "gone", daemon.everything())
    check(daemon.fake.log("term"), "it was asked to go, and said farewell", daemon.fake.log())
    replaced(daemon, case, behind, 2)
    daemon.alive()


@test("A5f_err_for_a_job_then_nothing")
def err_then_nothing(case):
    daemon = case.daemon(engine={"stall_s": 30})
    daemon.fake.script(jobs=[["ERR no such thing", ["silent"]], ["ERR nor this", ["silent"]], [["answer", 3, 0.01]]])
    first = daemon.chat()
    behind = [daemon.chat(stream=True, text="b"), daemon.chat(text="c"), daemon.chat(stream=True, text="d")]
    check_error(first.wait_end(1 + SCALE), 503, "engine_error", "no such thing")
    check_error(behind[0].wait_end(1 + SCALE), 503, "engine_error", "nor this")
    for chat in behind[1:]:
        check_answer(chat.wait_end(1 + SCALE), case.letters.text(3))
    check(behind[2].complete_at - first.sent_at < 1 + 2 * SCALE, "at once, not after T_stall", behind[2].complete_at - first.sent_at)
    check(daemon.fake.starts == 1 and not daemon.fake.stops(), "by the same engine", daemon.fake.log())
    run_for(0.1)
    daemon.alive()


@test("a_quiet_load_is_no_stall")
def quiet_load(case):  # seed S5
    daemon = case.daemon(engine={"stall_s": 1, "silence_s": 1, "ready_s": 20})
    daemon.fake.script(load=[["sleep", 4]])
    chat = daemon.chat().wait_end(4 + 5 * SCALE)
    check_answer(chat, case.letters.text(3))
    check(chat.took_s > 3.9 and daemon.fake.starts == 1, "no output and no CPU time while it loads is nobody's fault", chat.took_s, daemon.fake.log("start"))
    daemon.alive()
