"""Loads that never end, fail or take long: what waiting requests get, and that the next one may start again."""
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error, check_stream_error
from registry import test


@test("never_ready_answers_in_time", 60)
def never_ready(case):
    daemon = case.daemon("never_ready.sh", env={"VIGIL_ENGINE_READY_S": "8"})
    sent = time.monotonic()
    plain, stream = daemon.chat(), daemon.chat(stream=True)
    await_until(lambda: len(daemon.children()) >= 2, 3, "the script and its sleep run")
    first = set(daemon.children())
    for conn in (plain, stream):
        conn.wait_end(8 + 0.5 * SCALE)
        check_error(conn, 503, "engine_not_ready", "8 s", "engine.ready_s")
        check(7.9 < conn.complete_at - sent < 8 + 0.5 * SCALE, "answered at the limit", conn.complete_at - sent)
    await_until(lambda: not first & set(procs.marked(daemon.mark)), SCALE, "the script and its sleep are gone", 0.02)
    status = daemon.await_engine("failed")
    check("engine.ready_s" in status["engine"]["reason"] and status["totals"]["failed"] == 2, "the status says why", status)
    check(daemon.metric("vigil_engine_kills_total", why="ready") == 1, "a kill is counted")
    again = daemon.chat()
    status = daemon.await_engine("starting")
    check(status["engine"]["generation"] == 2, "the next request starts a second engine", status)
    await_until(daemon.children, SCALE, "which runs", 0.02)
    again.close()
    daemon.stop()


@test("never_ready_then_a_good_engine")
def never_ready_then_good(case):
    daemon = case.daemon("never_ready.sh", engine={"ready_s": 1})
    check_error(daemon.chat().wait_end(1.5 + SCALE), 503, "engine_not_ready", "1 s", "engine.ready_s")
    daemon.alive()
    check(daemon.status()["engine"]["generation"] == 2, "the second engine serves", daemon.status())


@test("never_ready_after_commit_is_an_error_event")
def never_ready_committed(case):
    daemon = case.daemon("never_ready.sh", engine={"ready_s": 4}, config={"http": {"commit_s": 1, "keepalive_s": 0.5}})
    stream = daemon.chat(stream=True).wait_head(1 + SCALE)
    check(stream.status == 200 and stream.first_byte_at - stream.sent_at > 0.9, "headers at commit_s", stream.status)
    stream.wait_end(4.5 + SCALE)
    check_stream_error(stream, 0, 503, "engine_not_ready", "4 s", "engine.ready_s")
    check(len(stream.comments) >= 4, "comments every keepalive_s", stream.events)
    daemon.alive()


@test("eager_never_ready_says_why_not")
def eager_never_ready(case):
    daemon = case.daemon("never_ready.sh", engine={"ready_s": 2, "start": "eager", "backoff_first_ms": 60000, "backoff_max_s": 60})
    check(time.monotonic() - daemon.started_at < 2, "the port is bound before anything loads")
    check(daemon.get("/health").status == 200, "health while loading")
    ready = daemon.get("/ready")
    check(ready.status == 503 and ready.json()["engine"] == "starting", "not ready while loading", ready.status, bytes(ready.body))
    # The first failure leaves the next start free, the second blocks it: an eager engine starts again by itself when it may.
    daemon.await_engine("backoff", 6)
    status = daemon.status()["engine"]
    check(status["generation"] == 2 and 30 < status["retry_in_s"] <= 75, "blocked after the second failure", status)
    ready = daemon.get("/ready")
    check(ready.status == 503 and ready.json()["engine"] == "backoff" and "engine.ready_s" in ready.json()["reason"], "why not", bytes(ready.body))
    refused = daemon.chat().wait_end(SCALE)
    check_error(refused, 503, "engine_crash_loop")
    check(refused.took_s < 0.5 * SCALE and 30 <= float(refused.headers["retry-after"]) <= 76, "at once, with the time left", refused.headers)


@test("ready_and_load_progress_over_http")
def ready_over_http(case):
    daemon = case.daemon()
    check(daemon.get("/ready").status == 200, "a lazy engine that was never started is ready", daemon.status())
    daemon.fake.script(load=["INFO load=0.37", ["sleep", 1.5]])
    chat = daemon.chat()
    await_until(lambda: daemon.status()["engine"]["load"] == 0.37, 5, "load progress in /status")
    ready = daemon.get("/ready")
    check(ready.status == 503 and ready.json()["engine"] == "starting" and ready.json()["load"] == 0.37, "/ready while loading", bytes(ready.body))
    check(daemon.get("/health").json() == {"status": "ok"}, "health while loading")
    active = daemon.status()["active"]
    check([item["phase"] for item in active] == ["loading"] and daemon.status()["requests"]["loading"] == 1, "the request is loading", active)
    check_answer(chat.wait_end(), case.letters.text(3))
    check(daemon.get("/ready").status == 200, "ready when loaded")
    daemon.alive()


@test("load_progress_rearms_ready_limit")
def progress_rearms(case):
    daemon = case.daemon(engine={"ready_s": 1.5})
    steps = [step for i in range(1, 9) for step in (f"INFO load={i / 10}", ["sleep", 0.5])]
    daemon.fake.script(load=steps)
    check_answer(daemon.chat().wait_end(10), case.letters.text(3))
    daemon.alive()


@test("load_without_growth_does_not_rearm")
def no_growth(case):
    daemon = case.daemon(engine={"ready_s": 1.5})
    daemon.fake.script(load=[step for _ in range(20) for step in ("INFO load=0.5", "INFO context=100", ["stderr", "busy"], ["sleep", 0.25])])
    chat = daemon.chat().wait_end(1.5 + 1.5 * SCALE)
    check_error(chat, 503, "engine_not_ready", "engine.ready_s")
    daemon.alive()


@test("load_max_bounds_a_growing_load")
def load_max(case):
    daemon = case.daemon(engine={"ready_s": 1.5, "load_max_s": 3})
    daemon.fake.script(load=[step for i in range(1, 90) for step in (f"INFO load={i / 100}", ["sleep", 0.2])])
    chat = daemon.chat().wait_end(3 + SCALE)
    check(chat.took_s > 2.9, "not before", chat.took_s)
    check_error(chat, 503, "engine_not_ready", "engine.load_max_s", "3 s")
    daemon.alive()


@test("engine_that_cannot_be_executed")
def cannot_execute(case):
    path = case.folder + "/broken"
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/nowhere/no-such-interpreter\n")
    daemon = case.daemon(path)
    for stream in (False, True):
        chat = daemon.chat(stream=stream).wait_end(2 * SCALE)
        check_error(chat, 503, "engine_start_failed")
    daemon.alive()


@test("engine_that_exits_before_ready")
def exits_before_ready(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["stderr", "cannot find the weights"], ["sleep", 0.1], ["exit", 7]])
    check_error(daemon.chat().wait_end(3 * SCALE), 503, "engine_start_failed", "7", "cannot find the weights")
    daemon.alive()


@test("engine_killed_while_it_loads")
def killed_while_loading(case):  # case A1
    daemon = case.daemon()
    daemon.fake.script(load=["INFO load=0.1", ["sleep", 0.3], ["die", 9]])
    chats = [daemon.chat(stream=i % 2 == 0, text=f"hi {i}") for i in range(4)]
    for chat in chats:
        chat.wait_end(5 * SCALE)
        check_error(chat, 503, "engine_start_failed", "signal 9")
    died = daemon.fake.log("start")[0][0] + 0.3
    check(max(chat.complete_at for chat in chats) - died < SCALE, "within 1 s of the death")
    check(daemon.fake.starts == 1, "one start for all four", daemon.fake.log())
    daemon.fake.script()
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    check(daemon.fake.starts == 2, "the next request starts one more", daemon.fake.log("start"))
    daemon.alive()


@test("engine_dies_while_idle")
def dies_idle(case):  # case A1, second run
    daemon = case.daemon()
    daemon.fake.script(idle=[["sleep", 1.5], ["die", 9]])
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    daemon.await_engine("ready")
    died = daemon.fake.log("sent", "READY")[0][0] + 1.5
    status = daemon.await_engine("failed", 4)
    check(time.monotonic() - died < SCALE, "seen within 1 s")
    check("signal 9" in status["engine"]["reason"], "the reason names the signal", status)
    run_for(0.3)
    check(daemon.fake.starts == 1, "a lazy engine waits for a request")
    check(daemon.get("/ready").status == 200, "a failed lazy engine is ready to be started")
    daemon.alive()
    check(daemon.fake.starts == 2, "one more start")


@test("eager_engine_starts_again_by_itself")
def eager_restarts(case):
    daemon = case.daemon(engine={"start": "eager"})
    status = daemon.await_engine("ready")
    import os
    import signal
    os.kill(status["engine"]["pid"], signal.SIGKILL)
    await_until(lambda: daemon.status()["engine"]["generation"] == 2, 5 * SCALE, "a second engine")
    daemon.await_engine("ready")
    daemon.alive()


@test("requests_of_one_load_share_it")
def one_load(case):  # S13, S21
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 0.7]])
    chats = [daemon.chat(text=f"hi {i}") for i in range(5)]
    daemon.await_requests(loading=5, running=0, queued=0)
    for chat in chats:
        check_answer(chat.wait_end(), case.letters.text(3))
    check(daemon.fake.starts == 1, "one spawn", daemon.fake.log("start"))
    daemon.alive()
