"""Clients that leave in every way and phase: exactly one STOP, soon; the engine is free again; nothing leaks (seed T4 to T9; cases B1, B2)."""
import statistics
import time

from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error, check_stream_error
from registry import test

LONG = [[["answer", 1000, 0.05]]]


def leave(daemon, conn, how):
    """Leaves; returns when the engine read a STOP after that, in seconds."""
    before = len(daemon.fake.stops())
    left = time.monotonic()
    getattr(conn, how)()
    await_until(lambda: len(daemon.fake.stops()) > before, 0.5 * SCALE + 0.5, f"a STOP after {how}", 0.002)
    return daemon.fake.stops()[before][0] - left


def next_is_served(daemon, case):
    """Within 1 s of the leaving, by the same engine."""
    daemon.fake.script(jobs=[[["answer", 3, 0]]])
    chat = daemon.chat(text="next").wait_end(2 * SCALE)
    check_answer(chat, case.letters.text(3))
    check(chat.took_s < SCALE, "within 1 s", chat.took_s)


@test("close_in_mid_stream_is_one_stop_within_50_ms")
def close_in_stream(case):
    daemon = case.daemon()
    delays = []
    for i in range(7):
        daemon.fake.script(jobs=LONG)
        stream = daemon.chat(stream=True, text=f"story {i}", max_tokens=2000).wait_deltas(2)
        delays.append(leave(daemon, stream, "close"))
        next_is_served(daemon, case)
        check(len(daemon.fake.stops()) == i + 1, "one STOP for the one that left, none after a normal end", daemon.fake.log())
    check(max(delays) < 0.5 * SCALE, "each within 500 ms", delays)
    check(statistics.median(delays) < 0.05 * SCALE, "a STOP within 50 ms", delays)
    totals = daemon.status()["totals"]
    check(totals["cancelled"] == 7 and totals["served"] == 7 and totals["failed"] == 0, "counted as cancelled", totals)
    daemon.alive()
    check(len(daemon.fake.stops()) == 7, "no STOP afterwards either")


@test("every_way_to_leave_is_one_stop")
def ways(case):
    daemon = case.daemon()
    for i, (stream, how) in enumerate([(True, "reset"), (False, "close"), (False, "reset"), (False, "half_close")]):
        daemon.fake.script(jobs=LONG)
        conn = daemon.chat(stream=stream, text=f"{i}", max_tokens=2000)
        if stream:
            conn.wait_deltas(1)
        else:
            await_until(lambda: len(daemon.fake.generations()) == 2 * i + 1, 5 * SCALE, "it has the engine")
            run_for(0.3)
        check(leave(daemon, conn, how) < 0.5 * SCALE, f"a STOP within 500 ms after {how}")
        if how == "half_close":
            check(not conn.status or conn.status >= 400, "never a 200 with a cut body", conn.status)
        next_is_served(daemon, case)
        check(len(daemon.fake.stops()) == i + 1, f"exactly one STOP after {how}", daemon.fake.log())
    check(daemon.status()["totals"]["cancelled"] == 4, "counted as cancelled", daemon.status())
    daemon.alive()


@test("half_closed_stream_goes_on")
def half_closed(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 20, 0.05]]])
    stream = daemon.chat(stream=True).wait_deltas(2)
    stream.half_close()
    check_answer(stream.wait_end(10 * SCALE), case.letters.text(20))
    check(not daemon.fake.stops(), "no STOP", daemon.fake.log())
    stream.close()
    daemon.fake.script(jobs=[[["answer", 20, 0.05]], [["answer", 3, 0]]])
    first, queued = daemon.chat(text="first"), daemon.chat(stream=True, text="queued")
    daemon.await_requests(queued=1)
    queued.half_close()
    check_answer(queued.wait_end(10 * SCALE), case.letters.text(3))
    check_answer(first.wait_end(), case.letters.text(20))
    check(len(queued.comments) >= 1, "a comment was the probe", queued.events)
    daemon.alive()


@test("leaving_while_queued_never_reaches_the_engine")
def queued(case):  # T6, case B2
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 20, 0.1]], [["answer", 3, 0]]])
    first = daemon.chat(text="first", max_tokens=41)
    await_until(daemon.fake.generations, 5 * SCALE, "the first has the engine")
    leavers = [(daemon.chat(stream=stream, text="leaver", max_tokens=42), how)
               for stream, how in ((True, "close"), (False, "close"), (True, "reset"), (False, "reset"), (False, "half_close"))]
    third = daemon.chat(text="third", max_tokens=43)
    daemon.await_requests(running=1, queued=6)
    left = time.monotonic()
    for conn, how in leavers:
        getattr(conn, how)()
    daemon.await_requests(queued=1)
    check(time.monotonic() - left < 0.5 * SCALE, "the queue falls within 500 ms")
    check_answer(first.wait_end(10 * SCALE), case.letters.text(20))
    check_answer(third.wait_end(2 * SCALE), case.letters.text(3))
    check(third.complete_at - first.complete_at < 0.5 * SCALE, "the third right after the first")
    sizes = [text.split(" ")[1] for _, _, text in daemon.fake.generations()]
    check(sizes == ["41", "43"] and not daemon.fake.stops(), "the leavers never reached the engine", sizes)
    totals = daemon.status()["totals"]
    check(totals["cancelled"] == 5 and totals["failed"] == 0, "cancelled, not failed", totals)
    daemon.alive()


@test("leaving_while_the_prompt_is_read")
def prefill(case):  # case B2
    daemon = case.daemon()
    for i, stream in enumerate((True, False)):
        daemon.fake.script(jobs=[[["pp", 100, 100, 0.1], ["answer", 3, 0]]])
        conn = daemon.chat(stream=stream, text=f"{i}")
        await_until(lambda: daemon.status()["active"] and daemon.status()["active"][0]["phase"] == "prefill", 5 * SCALE, "phase prefill")
        run_for(0.5)
        check(leave(daemon, conn, "close") < 0.5 * SCALE, "a STOP within 500 ms, not at the first token")
        next_is_served(daemon, case)
        check(len(daemon.fake.stops()) == i + 1, "one STOP", daemon.fake.log())
    daemon.alive()


@test("leaving_while_it_loads_keeps_the_load")
def loading(case):  # T7
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 1.5]])
    conns = [daemon.chat(stream=stream, text="leaver") for stream in (True, False)]
    daemon.await_requests(loading=2)
    for conn in conns:
        conn.close()
    daemon.await_requests(loading=0)
    daemon.await_engine("ready", 5)
    run_for(0.2)
    check(not daemon.fake.generations() and daemon.fake.starts == 1, "loaded, and nothing reached it", daemon.fake.log())
    check(daemon.status()["totals"]["cancelled"] == 2, "cancelled", daemon.status())
    daemon.alive()
    check(daemon.fake.starts == 1, "the next request uses that engine")


@test("leaving_right_after_asking_leaks_nothing")
def at_once(case):  # T8
    daemon = case.daemon()
    daemon.chat_until_answered()
    before = len(daemon.fake.generations())
    daemon.fake.script(jobs=LONG)
    for i in range(40):
        conn = daemon.chat(stream=i % 2 == 0, text=f"{i}", max_tokens=2000)
        if i % 4 < 2:
            conn.reset()
        else:
            conn.close()
    await_until(lambda: daemon.idle(daemon.status()), 20 * SCALE, "all are gone", 0.05)
    reached = len(daemon.fake.generations()) - before
    await_until(lambda: len(daemon.fake.stops()) == reached, 2 * SCALE, "one STOP for each that reached the engine")
    run_for(0.2)
    check(len(daemon.fake.stops()) == len(daemon.fake.generations()) - before, "never two", daemon.fake.log())
    totals = daemon.status()["totals"]
    check(totals["served"] == 1 and totals["failed"] == 0, "served only the one before", totals)
    daemon.alive()


@test("engine_without_stop_is_drained")
def drained(case):
    daemon = case.daemon()
    daemon.fake.script(ready="READY 4096", jobs=[[["answer", 20, 0.1]], [["answer", 3, 0]]])
    stream = daemon.chat(stream=True).wait_deltas(2)
    stream.close()
    left = time.monotonic()
    await_until(lambda: daemon.status()["totals"]["cancelled"] == 1, SCALE, "the request ends for its client at once", 0.01)
    check(time.monotonic() - left < SCALE and daemon.status()["active"][0]["phase"] == "stopping", "the engine is still busy with it", daemon.status())
    chat = daemon.chat(text="next").wait_end(10 * SCALE)
    check_answer(chat, case.letters.text(3))
    check(not daemon.fake.stops(), "no STOP to an engine that knows none", daemon.fake.log())
    first_done = daemon.fake.log("sent", "DONE")[0][0]
    check(daemon.fake.generations()[1][0] >= first_done, "no GEN while the untagged one is open", daemon.fake.log())
    daemon.alive()


@test("unanswered_stop_replaces_the_engine")
def unanswered(case):
    daemon = case.daemon(engine={"cancel_s": 2})
    daemon.fake.script(jobs=[[["tokens", 3000, 0.05]], [["answer", 3, 0]]], on_stop="ignore")
    stream = daemon.chat(stream=True, max_tokens=4000).wait_deltas(2)
    leave(daemon, stream, "close")
    chat = daemon.chat(text="next").wait_end(2 + 4 * SCALE)
    check_answer(chat, case.letters.text(3))
    check(daemon.fake.starts == 2 and len(daemon.fake.stops()) == 1, "a new engine, one STOP", daemon.fake.log("start"))
    check(daemon.metric("vigil_engine_kills_total", why="cancel") == 1, "a kill is counted")
    daemon.alive()


@test("innocent_neighbour_of_an_unanswered_stop")
def neighbour(case):
    daemon = case.daemon(engine={"cancel_s": 1})
    daemon.fake.script(ready="READY 4096 stop ids slots=2", jobs=[[["tokens", 3000, 0.05]]], on_stop="ignore")
    leaver = daemon.chat(stream=True, text="a", max_tokens=4000).wait_deltas(2)
    stays = daemon.chat(stream=True, text="b", max_tokens=4000).wait_deltas(2)
    leave(daemon, leaver, "close")
    stays.wait_end(1 + 2 * SCALE)
    check_stream_error(stays, len(stays.deltas), 503, "engine_stalled", "engine.cancel_s")
    daemon.alive()


@test("tagged_stop_names_its_request")
def tagged(case):
    daemon = case.daemon()
    daemon.fake.script(ready="READY 4096 stop ids slots=2", jobs=[[["answer", 30, 0.05]]])
    leaver = daemon.chat(stream=True, text="a", max_tokens=1001).wait_deltas(2)
    stays = daemon.chat(stream=True, text="b", max_tokens=1002).wait_deltas(2)
    third = daemon.chat(stream=True, text="c", max_tokens=1003)
    daemon.await_requests(running=2, queued=1)
    leave(daemon, leaver, "close")
    check_answer(stays.wait_end(10 * SCALE), case.letters.text(30))
    check_answer(third.wait_end(10 * SCALE), case.letters.text(30))
    tag = next(word[4:] for word in daemon.fake.generations()[0][2].split() if word.startswith("req="))
    check([text for _, _, text in daemon.fake.stops()] == [f"STOP {tag}"], "STOP with its tag, once", daemon.fake.log())
    daemon.alive()


@test("late_done_does_not_end_the_next")
def late_done(case):  # S20
    daemon = case.daemon()
    daemon.fake.script(jobs=[LONG[0], ["DONE 7 5 1 1 cancel", ["sleep", 0.2], "DONE 9 5 1 1 stop", ["answer", 5, 0.02]]])
    stream = daemon.chat(stream=True, max_tokens=2000).wait_deltas(2)
    leave(daemon, stream, "close")
    check_answer(daemon.chat(text="next", stream=True).wait_end(5 * SCALE), case.letters.text(5))
    daemon.fake.script(jobs=[["DONE 0 5 1 1 stop"]])
    check_answer(daemon.chat(text="empty").wait_end(5 * SCALE), "", "stop")
    check(daemon.fake.starts == 1, "one engine", daemon.fake.log("start"))
    daemon.alive()


@test("slow_stop_answer_keeps_the_next_waiting")
def slow_stop(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[LONG[0], [["answer", 3, 0]]], on_stop=0.7)
    stream = daemon.chat(stream=True, max_tokens=2000).wait_deltas(2)
    leave(daemon, stream, "close")
    check_answer(daemon.chat(text="next").wait_end(5 * SCALE), case.letters.text(3))
    done = daemon.fake.log("sent", "DONE cancel")[0][0]
    check(daemon.fake.generations()[1][0] >= done and len(daemon.fake.stops()) == 1, "GEN only after DONE", daemon.fake.log())
    daemon.alive()


@test("tokens_beyond_the_limit_are_dropped")
def beyond(case):
    daemon = case.daemon()
    for stream in (False, True):
        daemon.fake.script(jobs=[[["tokens", 500, 0.01]]])
        before = len(daemon.fake.stops())
        chat = daemon.chat(stream=stream, text=f"{stream}", max_tokens=5).wait_end(3 * SCALE)
        check_answer(chat, case.letters.text(5), "length")
        next_is_served(daemon, case)
        check(len(daemon.fake.stops()) == before + 1, "one STOP", daemon.fake.log())
    daemon.alive()


@test("end_token_ends_an_answer")
def end_token(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 3, 0.01], f"T {case.letters.end_id}", ["tokens", 500, 0.01]]])
    check_answer(daemon.chat().wait_end(3 * SCALE), case.letters.text(3), "stop")
    next_is_served(daemon, case)
    check(len(daemon.fake.stops()) == 1, "an engine that goes on is sent STOP once", daemon.fake.log())
    daemon.alive()


@test("stop_string_stops_the_engine_once")
def stop_string(case):
    daemon = case.daemon()
    texts = case.letters.texts
    daemon.fake.script(jobs=[[["tokens", 500, 0.01]]])
    for stream in (False, True):
        before = len(daemon.fake.stops())
        chat = daemon.chat(stream=stream, text=f"{stream}", max_tokens=400, stop=[texts[2] + texts[3]]).wait_end(3 * SCALE)
        check_answer(chat, case.letters.text(2), "stop")
        await_until(lambda: daemon.idle(daemon.status()), SCALE, "idle")
        check(len(daemon.fake.stops()) == before + 1, "one STOP", daemon.fake.log())
    daemon.alive()


@test("crash_while_a_stop_is_on_its_way")
def crash_after_stop(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 5, 0.05], ["sleep", 1], ["exit", 3]], [["answer", 3, 0]]], on_stop="ignore")
    stream = daemon.chat(stream=True).wait_deltas(2)
    leave(daemon, stream, "close")
    check_answer(daemon.chat(text="next").wait_end(10 * SCALE), case.letters.text(3))
    totals = daemon.status()["totals"]
    check(totals["cancelled"] == 1 and totals["failed"] == 0, "it had ended as cancelled, once", totals)
    check_error(daemon.request("POST", "/v1/chat/completions", b"{").wait_end(), 400, "invalid_json")
    daemon.alive()
