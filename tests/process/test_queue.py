"""The queue and what is said about it: limits, order, keep-alive while waiting, gauges that agree (seed T2, T9, T11, T12, T16; cases B4, B5)."""
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error
from registry import test


@test("full_queue_refuses_at_once_and_gives_back", 120)
def full(case):  # T11, case B5
    daemon = case.daemon(config={"queue": {"limit": 2}})
    daemon.fake.script(jobs=[[["answer", 1000, 0.02]]])
    running = daemon.chat(stream=True, max_tokens=2000).wait_deltas(1)
    waiting = [daemon.chat(text=f"waiting {i}") for i in range(2)]
    daemon.await_requests(running=1, queued=2)
    for stream in (False, True):
        refused = daemon.chat(text="one too many", stream=stream).wait_end()
        check_error(refused, 429, "queue_full", "2", "queue.limit")
        check(refused.took_s < 0.1 * SCALE, "within 100 ms", refused.took_s)
    check(daemon.status()["totals"]["rejected"] == 2, "counted", daemon.status())
    daemon.fake.script(jobs=[[["answer", 3, 0]]])
    running.close()
    for chat in waiting:
        check_answer(chat.wait_end(), case.letters.text(3))

    daemon.fake.script(jobs=[[["answer", 1000, 0.02]]])
    for i in range(50):
        stream = daemon.chat(stream=True, text=f"cancel {i}", max_tokens=2000).wait_deltas(1)
        stream.close()
    await_until(lambda: daemon.idle(daemon.status()), 5 * SCALE, "idle")
    daemon.fake.script(jobs=[["ERR not today"]])
    for i in range(50):
        check_error(daemon.chat(text=f"failure {i}").wait_end(), 503, "engine_error")
        requests = daemon.status()["requests"]
        check(all(value >= 0 for value in requests.values()), "no gauge below 0", requests)
    daemon.fake.script(jobs=[[["answer", 20, 0.02]]])
    three = [daemon.chat(text=f"last {i}") for i in range(3)]
    for chat in three:
        check_answer(chat.wait_end(), case.letters.text(20))
    totals = daemon.status()["totals"]
    check(totals == {"served": 5, "failed": 50, "cancelled": 51, "rejected": 2}, "each counted once", totals)
    for outcome, number in totals.items():
        check(daemon.metric("vigil_requests_total", outcome=outcome) == number, f"the metrics agree: {outcome}")
    daemon.alive()


@test("waiting_too_long_is_a_timeout")
def timeout(case):
    daemon = case.daemon(config={"queue": {"wait_s": 1}})
    daemon.fake.script(jobs=[[["answer", 40, 0.1]], [["answer", 3, 0]]])
    first = daemon.chat()
    await_until(daemon.fake.generations, 5 * SCALE, "the first has the engine")
    waiting = [daemon.chat(text="b"), daemon.chat(text="c", stream=True)]
    for chat in waiting:
        chat.wait_end(1 + SCALE)
        check_error(chat, 503, "queue_timeout", "queue.wait_s", "1 s")
        check(chat.took_s > 0.9, "not before", chat.took_s)
    daemon.await_requests(queued=0)
    check_answer(first.wait_end(), case.letters.text(40))
    check(len(daemon.fake.generations()) == 1, "they never reached the engine", daemon.fake.log())
    daemon.alive()


@test("waiting_stream_is_kept_alive")
def keep_alive(case):  # T12
    daemon = case.daemon(config={"http": {"commit_s": 0.5, "keepalive_s": 0.3}})
    daemon.fake.script(load=[["sleep", 1.5]], jobs=[[["answer", 20, 0.1]], [["answer", 3, 0]]])
    first, second = daemon.chat(stream=True, text="loads"), daemon.chat(stream=True, text="queued")
    check_answer(first.wait_end(), case.letters.text(20))
    check_answer(second.wait_end(), case.letters.text(3))
    for stream, least in ((first, 3), (second, 8)):
        kinds = [event.kind for event in stream.events]
        check(kinds[:least] == ["comment"] * least, "comments while it waits", stream.events)
        check(stream.data[0]["choices"][0]["delta"].get("role") == "assistant", "the first real event has the role", stream.data[0])
    daemon.alive()


@test("first_come_first_served")
def order(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 0.5]], jobs=[[["answer", 2, 0.02]]])
    chats = []
    for i in range(6):
        chats.append(daemon.chat(text="same", max_tokens=20 + i, user="one client"))
        daemon.await_requests(loading=i + 1)
    for chat in chats:
        check_answer(chat.wait_end(), case.letters.text(2))
    sizes = [text.split(" ")[1] for _, _, text in daemon.fake.generations()]
    check(sizes == [str(20 + i) for i in range(6)], "in the order of their coming", sizes)
    daemon.alive()


@test("clients_take_turns")
def turns(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["sleep", 1]], jobs=[[["answer", 2, 0.02]]])
    chats = []
    for i, user in enumerate("aaaab"):
        chats.append(daemon.chat(text="same", max_tokens=20 + i, user=user))
        daemon.await_requests(loading=i + 1)
    for chat in chats:
        check_answer(chat.wait_end(), case.letters.text(2))
    sizes = [text.split(" ")[1] for _, _, text in daemon.fake.generations()]
    check(sizes.index("24") <= 2, "the second client does not wait for all of the first's", sizes)
    daemon.alive()


@test("status_agrees_with_itself_and_shows_no_text")
def status(case):  # T2, T16
    daemon = case.daemon()
    secret = "xylophone"
    daemon.fake.script(jobs=[[["pp", 5, 9, 0.1], ["answer", 15, 0.05]]])
    chats = [daemon.chat(text=f"{secret} {i}", stream=i == 0) for i in range(4)]
    phases = set()

    def look():
        reply = daemon.get("/status")
        found = reply.json()
        requests, active = found["requests"], found["active"]
        counted = {phase: sum(item["phase"] == phase for item in active) for phase in ("queued", "loading")}
        running = len(active) - counted["queued"] - counted["loading"]
        check((requests["queued"], requests["loading"], requests["running"]) == (counted["queued"], counted["loading"], running), "the counts agree", found)
        check(requests["limit"] == 64 and running <= 1, "one at a time", found)
        check(running == 1 or not counted["queued"], "never idle with a queue", found)
        check(len({item["id"] for item in active}) == len(active), "each id once", found)
        for text in (bytes(reply.body), bytes(daemon.get("/metrics").body)):
            check(secret.encode() not in text and case.letters.text(4).encode() not in text, "no text of a request", text)
        for item in active:
            phases.add(item["phase"])
            check(item["held_s"] >= 0 and item["generated"] <= 15 and item["prefilled"] <= item["prompt_tokens"] + 9, "sane numbers", item)
        return all(chat.complete for chat in chats)
    await_until(look, 15 * SCALE, "all answered", 0.02)
    for chat in chats:
        check_answer(chat, case.letters.text(15))
    check({"queued", "prefill", "decoding"} <= phases, "the phases of a request's life were seen", phases)
    daemon.alive()
    run_for(0.05)
    reply = daemon.get("/status")
    check(secret.encode() not in bytes(reply.body) and reply.json()["active"] == [], "nor afterwards", bytes(reply.body))
    check(not daemon.fake.stops(), "a normal end sends no STOP", daemon.fake.log())


@test("all_clients_drop_at_once")
def drop(case):  # case B4b
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 1000, 0.02]]])
    chats = [daemon.chat(stream=i % 2 == 0, text=f"{i}", max_tokens=2000) for i in range(20)]
    daemon.await_requests(running=1, queued=19)
    for path in ("/health", "/status", "/metrics", "/v1/models"):
        reply = daemon.get(path)
        check(reply.status == 200 and reply.took_s < 0.2 * SCALE, f"{path} answers under load", reply.took_s)
    for chat in chats:
        chat.close()
    await_until(lambda: daemon.idle(daemon.status()), SCALE, "nothing runs, nothing waits")
    totals = daemon.status()["totals"]
    check(totals["cancelled"] == 20 and totals["served"] == 0, "20 cancelled", totals)
    check(daemon.metric("vigil_requests_running") == 0 and daemon.metric("vigil_requests_queued") == 0, "the gauges too")
    daemon.alive()


def stuck_reader(daemon, tokens):
    """Asks for a stream and reads nothing."""
    conn = daemon.connect(receive_buffer=4096, reading=False)
    before = len(daemon.fake.generations())
    conn.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "stuck"}], "max_tokens": tokens, "stream": True})
    await_until(lambda: len(daemon.fake.generations()) > before, 5 * SCALE, "it has the engine")
    return conn


@test("reader_that_stops_reading_is_cancelled")
def slow_reader(case):  # case B7
    daemon = case.daemon(config={"http": {"write_s": 2, "write_buffer_bytes": 1 << 20}}, engine={"stall_s": 1})
    many = 300000
    daemon.fake.script(ready="READY 1000000 stop", jobs=[[["answer", many, 0]], [["answer", 3, 0]]])
    daemon.chat_until_answered()
    daemon.fake.script(ready="READY 1000000 stop", jobs=[[["answer", many, 0]], [["answer", 3, 0]]])
    held = procs.memory_kib(daemon.pid, "VmRSS")
    procs.forget_peak_memory(daemon.pid)
    stuck = stuck_reader(daemon, many)
    asked = time.monotonic()
    other = daemon.chat(text="other").wait_end(4 + 10 * SCALE)
    check_answer(other, case.letters.text(3))
    check(other.complete_at - asked > 1.9, "the engine was held back for write_s first", other.complete_at - asked)
    grown = procs.memory_kib(daemon.pid, "VmHWM") - held
    check(grown < 8 * 1024 or SCALE > 1, "memory grows by no more than the cap for one client", grown)
    totals = daemon.status()["totals"]
    check(totals["cancelled"] == 1 and totals["served"] == 2 and totals["failed"] == 0, "cancelled, not failed", totals)
    check(daemon.fake.starts == 1 and len(daemon.fake.stops()) == 1, "the engine is not to blame: one STOP, no kill", daemon.fake.log("start"))
    stuck.close()
    daemon.alive()


@test("reader_that_resumes_misses_nothing")
def resumed_reader(case):  # case B7, second run
    daemon = case.daemon(config={"http": {"write_s": 20, "write_buffer_bytes": 1 << 20}}, engine={"stall_s": 1, "silence_s": 2})
    many = 60000
    daemon.fake.script(ready="READY 1000000 stop", jobs=[[["answer", many, 0]]])
    stuck = stuck_reader(daemon, many)
    run_for(4)  # longer than stall_s and silence_s: the clocks of a held engine stand still
    check(daemon.status()["requests"]["running"] == 1 and not daemon.fake.log("sent", "DONE"), "the engine is held back", daemon.status())
    stuck.resume()
    check_answer(stuck.wait_end(60 * SCALE), case.letters.text(many))
    check(daemon.status()["totals"]["served"] == 1 and daemon.fake.starts == 1, "served whole by one engine", daemon.status())
    daemon.alive()


@test("stuck_reader_does_not_slow_its_neighbour")
def stuck_neighbour(case):
    daemon = case.daemon(config={"http": {"write_s": 20, "write_buffer_bytes": 1 << 20}})
    many = 300000
    daemon.fake.script(ready="READY 1000000 stop ids slots=2", jobs=[[["answer", 60, 0.05]], [["answer", many, 0]]])
    good = daemon.chat(stream=True, text="good").wait_deltas(2)
    stuck = stuck_reader(daemon, many)
    check_answer(good.wait_end(10 * SCALE), case.letters.text(60))
    check(good.took_s < 3 + 5 * SCALE, "it is not slowed", good.took_s)
    await_until(lambda: daemon.status()["totals"]["cancelled"] == 1, 10 * SCALE, "the stuck one is ended", 0.05)
    stuck.close()
    daemon.alive()


@test("cancel_by_request_id")
def by_id(case):  # T8, T9
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 1000, 0.05]]])
    running = daemon.chat(stream=True, max_tokens=2000).wait_deltas(1)
    queued = daemon.chat(text="queued")
    daemon.await_requests(queued=1)
    ids = {item["phase"]: item["id"] for item in daemon.status()["active"]}
    check(running.headers["x-request-id"] == ids["decoding"], "the stream's own id", running.headers, ids)
    answers = [daemon.request("DELETE", f"/v1/requests/{ids[phase]}").wait_end() for phase in ("queued", "decoding")]
    check(all(200 <= answer.status < 300 for answer in answers), "acknowledged", [(answer.status, bytes(answer.body)) for answer in answers])
    for conn in (running, queued):
        conn.wait_end(2 * SCALE)
    running.close()
    await_until(lambda: daemon.idle(daemon.status()), 2 * SCALE, "nothing is open")
    check(len(daemon.fake.stops()) == 1 and len(daemon.fake.generations()) == 1, "one STOP; the queued one never started", daemon.fake.log())
    gone = daemon.request("DELETE", f"/v1/requests/{ids['decoding']}").wait_end()
    check_error(gone, 404, "not_found")
    check(daemon.status()["totals"]["cancelled"] == 2, "both are cancelled", daemon.status())
    daemon.alive()
