"""Orders by hand: load, unload, idle unload, and a reload that brings another engine or model."""
import json
import os
import shutil
import signal
import time

from client import SCALE, await_until, check
from harness import MODEL, check_answer, check_error, check_stream_error
from registry import test


def order(daemon, what):
    return daemon.request("POST", "/v1/" + what)


@test("load_by_hand_answers_when_ready")
def load_by_hand(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 0.5]])
    reply = order(daemon, "load").wait_end(5 + SCALE)
    check(reply.status == 200 and reply.json()["status"] == "ready", "answered at READY", bytes(reply.body))
    check(reply.took_s >= 0.5, "and not before", reply.took_s)
    check(daemon.status()["engine"]["state"] == "ready", "it is ready")
    again = order(daemon, "load").wait_end(2 + SCALE)
    check(again.status == 200 and daemon.fake.starts == 1, "a second load starts nothing", daemon.fake.starts)
    daemon.alive()


@test("load_by_hand_says_why_not_and_breaks_a_back_off")
def load_that_fails(case):
    daemon = case.daemon(engine={"backoff_first_ms": 60000, "backoff_max_s": 60})
    daemon.fake.script(load=[["exit", 3]], ready=None)
    for _ in range(2):
        check_error(order(daemon, "load").wait_end(5 + SCALE), 503, "engine_start_failed", "status 3")
    check_error(daemon.chat().wait_end(5 + SCALE), 503, "engine_start_failed")  # the second in a row, since each load by hand counts anew
    check_error(daemon.chat().wait_end(2 + SCALE), 503, "engine_crash_loop")
    daemon.fake.script()
    check(order(daemon, "load").wait_end(5 + SCALE).status == 200, "by hand the back-off is over")
    daemon.alive()


@test("unload_waits_for_the_running_and_refuses_the_rest")
def unload_waits(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 20, 0.1]]])
    running = daemon.chat(stream=True, max_tokens=20).wait_deltas(1)
    queued = daemon.chat()
    daemon.await_requests(queued=1)
    unload = order(daemon, "unload")
    check_error(queued.wait_end(SCALE), 503, "engine_unloaded")
    check_error(daemon.chat().wait_end(SCALE), 503, "engine_unloaded")
    check(not unload.complete_at, "the unload waits")
    running.wait_end(5 + SCALE)
    check(running.said_done and len(running.deltas) >= 20, "the running answer is whole", running.events)
    unload.wait_end(daemon.stop_s + SCALE)
    check(unload.status == 200 and unload.json() == {"status": "unloaded"}, "then it is done", bytes(unload.body))
    check(not daemon.children(), "nothing of the engine is left")
    status = daemon.status()
    check(status["engine"]["state"] == "unloaded" and status["engine"]["reason"] == "", "unloaded is no failure", status)
    check(not daemon.fake.stops(), "no STOP was sent")
    daemon.alive()  # the next request starts it again


@test("unload_ends_a_load_in_progress")
def unload_loading(case):
    daemon = case.daemon()
    daemon.fake.script(ready=None)
    waiting, loading = daemon.chat(), order(daemon, "load")
    stream = daemon.chat(stream=True)
    daemon.await_engine("starting")
    daemon.await_requests(loading=2)
    unload = order(daemon, "unload")
    check_error(waiting.wait_end(SCALE), 503, "engine_unloaded")
    check_error(stream.wait_end(SCALE), 503, "engine_unloaded")
    check_error(loading.wait_end(SCALE), 503, "engine_unloaded")
    check(unload.wait_end(daemon.stop_s + SCALE).status == 200, "unloaded")
    daemon.await_engine("unloaded")
    daemon.fake.script()
    daemon.alive()


@test("unload_of_what_is_not_loaded")
def unload_nothing(case):
    daemon = case.daemon()
    check(order(daemon, "unload").wait_end(SCALE).status == 200, "nothing to do")
    check(daemon.fake.starts == 0, "and nothing started")
    daemon.alive()


@test("unload_then_load_is_a_restart")
def unload_then_load(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 10, 0.1]]])
    running = daemon.chat(stream=True, max_tokens=10).wait_deltas(1)
    unload, load = order(daemon, "unload"), order(daemon, "load")
    running.wait_end(5 + SCALE)
    check(running.said_done, "the running answer is whole", running.events)
    check(unload.wait_end(5 + SCALE).status == 200 and load.wait_end(5 + SCALE).status == 200, "both are done")
    check(daemon.status()["engine"]["generation"] == 2, "in a new process", daemon.status())
    daemon.alive()


@test("unload_of_an_eager_engine_stays")
def unload_eager(case):
    daemon = case.daemon(engine={"start": "eager"})
    daemon.await_engine("ready")
    check(order(daemon, "unload").wait_end(5 + SCALE).status == 200, "unloaded")
    check(daemon.status()["engine"]["state"] == "unloaded", "and stays so", daemon.status())
    check(daemon.get("/ready").status == 503, "an eager one that is unloaded is not ready")
    daemon.alive()


@test("unload_while_the_daemon_stops")
def unload_stopping(case):
    daemon = case.daemon(config={"drain_s": 1})
    daemon.fake.script(jobs=[[["answer", 2000, 0.05]]], ignore_term=True)
    stream = daemon.chat(stream=True, max_tokens=2000).wait_deltas(1)
    unload = order(daemon, "unload")
    daemon.status()
    daemon.signal(signal.SIGTERM)
    stream.wait_end(2 + daemon.stop_s + SCALE)
    check_stream_error(stream, len(stream.deltas), 503, "shutting_down")
    unload.wait_end(2 + daemon.stop_s + SCALE)
    check(daemon.await_exit(2 + daemon.stop_s + SCALE) == 0, "a clean stop")
    daemon.await_no_children(SCALE)


@test("idle_unload_and_start_again")
def idle_unload(case):
    daemon = case.daemon(engine={"idle_unload_s": 0.5})
    check_answer(daemon.chat().wait_end(5 + SCALE), "ABC")
    daemon.await_engine("unloaded", 2 + SCALE)
    check(not daemon.children(), "nothing is left")
    check(daemon.get("/ready").status == 200, "a lazy one would serve")
    check_answer(daemon.chat().wait_end(5 + SCALE), "ABC")
    daemon.await_engine("unloaded", 2 + SCALE)
    check(daemon.fake.starts == 2, "it was started again", daemon.fake.starts)
    check(daemon.status()["totals"]["served"] == 2, "both were served", daemon.status())


@test("load_and_unload_commands")
def commands(case):
    daemon = case.daemon()
    url = f"http://127.0.0.1:{daemon.port}"
    done = case.vigil("load", "--url", url)
    check(done.returncode == 0 and done.stdout.strip() == "ready", "vigil load", done)
    done = case.vigil("unload", "--url", url, "--json")
    check(done.returncode == 0 and json.loads(done.stdout) == {"status": "unloaded"}, "vigil unload", done)
    daemon.fake.script(load=[["exit", 4]], ready=None)
    done = case.vigil("load", "--url", url)
    check(done.returncode == 1 and "status 4" in done.stderr, "a load that fails says why", done)
    daemon.fake.script()
    daemon.alive()


@test("cancel_that_overtakes_its_request")
def early_cancel(case):
    daemon = case.daemon()
    daemon.alive()
    reply = daemon.request("DELETE", "/v1/requests/mine").wait_end(SCALE)
    check_error(reply, 404, "not_found", "mine")
    late = daemon.chat(headers={"X-Request-Id": "mine"}).wait_end(SCALE)
    check(late.status == 499 and late.json()["error"]["code"] == "request_cancelled", "it is not started", bytes(late.body))
    check(daemon.status()["totals"]["cancelled"] == 1, "and counted as cancelled", daemon.status())
    check_answer(daemon.chat(headers={"X-Request-Id": "mine"}).wait_end(5 + SCALE), "ABC")


@test("engine_that_lost_a_request_is_reconciled")
def reconciled(case):
    daemon = case.daemon(engine={"silence_s": 60, "stall_s": 60, "step_s": 60, "cancel_s": 60})
    beats = [["tokens", 1, 0], *[step for n in range(70) for step in (f"BEAT step={n} active=", ["sleep", 0.1])]]
    daemon.fake.script(ready="READY 4096 stop beat=1000", jobs=[beats, [["answer", 3, 0]]])
    stream = daemon.chat(stream=True)
    stream.wait_end(5 + 2 * SCALE)
    check_stream_error(stream, 1, 503, "engine_error", "lost the request", "active=")
    check(5 - 0.2 < stream.took_s, "after five quiet seconds", stream.took_s)
    check("is released" in daemon.stderr(), "with the evidence in the log")
    check(daemon.status()["engine"]["generation"] == 1, "the engine is kept", daemon.status())


def reload(daemon):
    daemon.write_config()
    daemon.signal(signal.SIGHUP)


@test("hangup_gives_the_engine_new_arguments_at_its_next_start")
def new_arguments(case):
    daemon = case.daemon(engine={"env": {"MARKER": "one"}})
    daemon.alive()
    daemon.fake.script(jobs=[[["answer", 20, 0.05]]])
    stream = daemon.chat(stream=True, max_tokens=20).wait_deltas(1)
    daemon.config["engine"]["env"] = {"MARKER": "two"}
    reload(daemon)
    await_until(lambda: "reload: engine.env" in daemon.stderr(), 5 * SCALE, "the change is logged")
    stream.wait_end(5 + SCALE)
    check(stream.said_done, "no request is dropped", stream.events)

    def environment():
        pid = daemon.status()["engine"]["pid"]
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    check(b"MARKER=one" in environment(), "the running engine is not touched")
    check(order(daemon, "unload").wait_end(5 + SCALE).status == 200, "unloaded")
    check(order(daemon, "load").wait_end(5 + SCALE).status == 200, "loaded")
    check(b"MARKER=two" in environment(), "the next start has the new setting")
    daemon.alive()


@test("hangup_with_another_model_holds_from_the_next_start")
def new_model(case):
    daemon = case.daemon(config={"model_name": "first"})
    daemon.alive()
    other = os.path.join(daemon.folder, "other.gguf")
    shutil.copy(MODEL, other)
    models = lambda: [one["id"] for one in daemon.get("/v1/models").json()["data"]]
    daemon.config["model"], daemon.config["model_name"] = other, "second"
    reload(daemon)
    await_until(lambda: "reload: model" in daemon.stderr(), 5 * SCALE, "the change is logged")
    check(models() == ["first"], "the running engine keeps its model", models())
    check_answer(daemon.chat().wait_end(5 + SCALE), "ABC")
    check(order(daemon, "unload").wait_end(5 + SCALE).status == 200, "unloaded")
    await_until(lambda: models() == ["second"], SCALE, "now the new one holds")
    daemon.alive()

    with open(other, "r+b") as file:
        file.write(b"LIES")
    reload(daemon)
    await_until(lambda: "nothing was changed" in daemon.stderr(), 5 * SCALE, "a broken model changes nothing")
    check(models() == ["second"], "the name is the old one", models())
    daemon.alive()


@test("hangup_while_requests_wait_for_the_old_model")
def model_swap_with_waiters(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 1], ["exit", 1]], ready=None)
    first = daemon.chat()
    daemon.await_requests(loading=1)
    other = os.path.join(daemon.folder, "other.gguf")
    shutil.copy(MODEL, other)
    daemon.config["model"] = other
    reload(daemon)
    await_until(lambda: "reload: model" in daemon.stderr(), 5 * SCALE, "the change is logged")
    check_error(first.wait_end(3 + SCALE), 503, "engine_start_failed")
    daemon.fake.script()
    daemon.alive()
