"""Cases B1 to B7: clients that leave, a status that tells the truth at once, places that are given back, many requests on one connection,
readers that stop reading."""
import json
import threading
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error
from registry import test

LONG = [[["answer", 1000, 0.05]]]
T_WRITE = 2


def one_stop_in_time(daemon, conn, how, stops):
    """The client leaves; the engine reads one STOP for it within 500 ms, and a second never comes."""
    left = time.monotonic()
    getattr(conn, how)()
    await_until(lambda: len(daemon.fake.stops()) == stops, 0.5 + SCALE, f"STOP {stops} after {how}", 0.002)
    took = daemon.fake.stops()[-1][0] - left
    check(took < 0.5 * SCALE, f"within 500 ms after {how}", took)


def next_starts(daemon, case, limit_s=1):
    chat = daemon.chat(text="next").wait_end(limit_s * SCALE + 1)
    check_answer(chat, case.letters.text(3))
    check(chat.took_s < limit_s * SCALE, f"the next is served within {limit_s} s", chat.took_s)


# ---- B1

@test("B1_client_of_an_answer_leaves")
def leaves(case):
    daemon = case.daemon()
    for i, (stream, how) in enumerate(((False, "close"), (True, "close"), (False, "reset"), (True, "reset"))):
        daemon.fake.script(jobs=LONG)
        conn = daemon.chat(stream=stream, text=f"{i}", max_tokens=2000)
        await_until(lambda: len(daemon.fake.generations()) == 2 * i + 1, 5 * SCALE, "it has the engine")
        run_for(0.3)
        one_stop_in_time(daemon, conn, how, i + 1)
        daemon.fake.script()
        next_starts(daemon, case)
        check(len(daemon.fake.stops()) == i + 1, "never two, and none for the job that ended by itself", daemon.fake.log())
    check(daemon.status()["totals"]["cancelled"] == 4 and daemon.fake.starts == 1, "counted, by one engine", daemon.status())
    daemon.alive()
    check(len(daemon.fake.stops()) == 4, "nor afterwards")


# ---- B2

@test("B2_gone_while_it_waits")
def gone_waiting(case):
    daemon = case.daemon()
    for stream, how in ((False, "close"), (True, "close"), (False, "reset"), (True, "reset")):
        daemon.fake.script(jobs=[[["answer", 15, 0.1]], [["answer", 3, 0]]])
        before = len(daemon.fake.generations())
        first = daemon.chat(text="R1", max_tokens=41)
        await_until(lambda: len(daemon.fake.generations()) == before + 1, 5 * SCALE, "R1 runs")
        second = daemon.chat(stream=stream, text="R2", max_tokens=42)
        daemon.await_requests(queued=1)
        third = daemon.chat(text="R3", max_tokens=43)
        daemon.await_requests(queued=2)
        left = time.monotonic()
        getattr(second, how)()
        daemon.await_requests(queued=1)
        check(time.monotonic() - left < 0.5 * SCALE, "the queue's length drops within 500 ms", time.monotonic() - left)
        check_answer(first.wait_end(10 * SCALE), case.letters.text(15))
        check_answer(third.wait_end(5 * SCALE), case.letters.text(3))
        check(third.complete_at - first.complete_at < 0.5 * SCALE, "R3 right after R1", third.complete_at - first.complete_at)
        sizes = [text.split(" ")[1] for _, _, text in daemon.fake.generations()][before:]
        check(sizes == ["41", "43"], "R2 never reached the engine", sizes)
    check(not daemon.fake.stops(), "and no STOP went out", daemon.fake.log())
    daemon.alive()


@test("B2_gone_while_its_prompt_is_read")
def gone_reading(case):
    daemon = case.daemon()
    for i, (stream, how) in enumerate(((False, "close"), (True, "close"), (False, "reset"), (True, "reset"))):
        daemon.fake.script(jobs=[[["pp", 100, 100, 0.1], ["answer", 3, 0]]])  # 10 s of progress, no token
        conn = daemon.chat(stream=stream, text=f"{i}")
        await_until(lambda: daemon.status()["requests"]["running"], 5 * SCALE, "it runs")
        run_for(1)
        one_stop_in_time(daemon, conn, how, i + 1)
        daemon.fake.script()
        next_starts(daemon, case)
    check(len(daemon.fake.stops()) == 4, "one each", daemon.fake.log())
    daemon.alive()


# ---- B4

GETS = ("/health", "/status", "/metrics", "/v1/models")


def answer_at_once(daemon, why, times=None):
    """Under 200 ms; with `times` they are gathered, and only what no busy machine explains fails here."""
    for path in GETS:
        reply = daemon.get(path)
        check(reply.status == 200 and reply.took_s < (0.2 if times is None else 1) * SCALE, f"{path} under 200 ms {why}", reply.status, reply.took_s)
        if times is not None:
            times.append(reply.took_s)


@test("B4_status_answers_at_once_under_load")
def under_load(case):
    daemon = case.daemon(config={"queue": {"limit": 200}})
    daemon.fake.script(ready="READY 4096 stop ids slots=2", jobs=LONG)
    chats = [daemon.chat(stream=i % 2 == 0, text=f"{i}", max_tokens=2000) for i in range(50)]
    daemon.await_requests(running=2, queued=48)
    for _ in range(5):
        answer_at_once(daemon, "with 50 requests open")
    for chat in chats:
        chat.close()
    daemon.alive()


def large_bodies():
    """(path, body, statuses that are right): 20 to 60 MB of everything that takes long to read."""
    chat = b'{"messages":[{"role":"user","content":"hi"}],'
    def filled(start, piece, size, end):
        return start + piece * (size // len(piece)) + end
    yield "/v1/chat/completions", filled(b'{"messages":[{"role":"user","content":"', b"hello there ", 60_000_000, b'"}]}'), (400,)
    yield "/v1/chat/completions", filled(chat + b'"x":[', b"[],", 40_000_000, b"1]}"), (413,)
    yield "/v1/chat/completions", filled(chat + b'"x":[', b'{"":0},', 40_000_000, b"1]}"), (413,)
    yield "/v1/chat/completions", filled(chat + b'"x":"', b"\\u00e9", 60_000_000, b'"}'), (200,)
    yield "/v1/chat/completions", filled(b'{"messages":[', b'{"role":"user","content":"a"},', 20_000_000, b'{"role":"user","content":"a"}]}'), (400,)
    yield "/v1/completions", filled(b'{"prompt":[', b"3,", 40_000_000, b"3]}"), (413,)
    yield "/v1/completions", filled(b'{"prompt":"', "é".encode(), 40_000_000, b""), (400,)  # never closed
    yield "/v1/tokenize", filled(b'{"text":"', b"hello ", 20_000_000, b'"}'), (400,)
    yield "/v1/detokenize", filled(b'{"tokens":[', b"3,", 20_000_000, b"3]}"), (413,)


@test("B4_large_bodies_do_not_hold_up_the_others", 240)
def large(case):
    daemon = case.daemon(config={"queue": {"limit": 200}})
    daemon.chat_until_answered()
    replies, times = [], []

    def post(path, body):  # a thread: a socket that is being filled would hold up this test's own look at the others
        conn = daemon.connect(reading=False)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        conn.socket.settimeout(200)
        conn.send(head)
        conn.socket.sendall(body)
        replies.append((conn, path))
    procs.forget_peak_memory(daemon.pid)
    threads, wanted = [], []
    for path, body, statuses in large_bodies():
        threads.append(threading.Thread(target=post, args=(path, body), daemon=True))
        wanted.append((path, statuses))
        threads[-1].start()
        if len(threads) % 3:
            continue
        while any(thread.is_alive() for thread in threads):
            answer_at_once(daemon, "while bodies come", times)
        for conn, _ in replies[-3:]:
            conn.resume()
        end = time.monotonic() + 60 * SCALE
        while not all(conn.complete for conn, _ in replies[-3:]):
            answer_at_once(daemon, "while they are read", times)
            check(time.monotonic() < end, "they are answered", [(path, conn.status) for conn, path in replies])
            run_for(0.01)
    for path in sorted({path for path, _ in wanted}):
        found = sorted(conn.status for conn, its in replies if its == path)
        check(found == sorted(status for its, statuses in wanted if its == path for status in statuses), f"the answers to {path}",
              [(conn.status, bytes(conn.body)[:200]) for conn, its in replies if its == path])
    for conn, _ in replies:
        check("x-request-id" in conn.headers and json.loads(bytes(conn.body)), "JSON with an id", conn.headers)
    late = [took for took in times if took > 0.2 * SCALE]
    print(f"{len(times)} answers meanwhile, the slowest after {max(times):.3f} s, {len(late)} after more than 200 ms")
    check(len(times) > 100 and len(late) <= len(times) // 50, "under 200 ms, but for a few that waited for a processor", len(times), sorted(late)[-5:])
    peak = procs.memory_kib(daemon.pid, "VmHWM") >> 10
    print(f"peak memory {peak} MiB")
    check(peak < 1024 or SCALE > 1, "memory has a bound", peak)
    daemon.alive()


@test("B4_leavers_and_the_end_do_not_wait_for_a_long_text", 120)
def long_texts(case):
    daemon = case.daemon()
    daemon.chat_until_answered()
    text = b'{"messages":[{"role":"user","content":"' + b"x y " * 3_500_000 + b'"}]%s}'
    daemon.fake.script(ready="READY 4000000 stop")
    daemon.request("POST", "/v1/unload").wait_end(5 * SCALE)
    daemon.request("POST", "/v1/load").wait_end(5 * SCALE)

    def ask(more=b"", **headers):
        return daemon.request("POST", "/v1/chat/completions", text % more, headers)
    gone = ask()
    gone.close()  # its body may still be read, its text is not worked on
    stopped = ask(**{"X-Request-Id": "long"})
    replies = []

    def cancelled():  # 404 as long as the body is on its way
        replies.append(daemon.request("DELETE", "/v1/requests/long").wait_end(SCALE))
        return replies[-1].status == 200
    await_until(cancelled, 3 * SCALE, "cancelled while it is read or tokenised", 0.05)
    check(max(reply.took_s for reply in replies) < 0.5 * SCALE, "nobody waits for it", [reply.took_s for reply in replies])
    check(stopped.wait_end(SCALE).status == 499, "its client is told", stopped.status)
    check_answer(daemon.chat(text="short").wait_end(2 * SCALE), case.letters.text(3))
    waiting = [ask(), ask(b',"stream":true')]
    run_for(0.2)
    asked = time.monotonic()
    daemon.signal(15)
    for conn in waiting:
        check_error(conn.wait_end(SCALE), 503, "shutting_down")
    check(daemon.await_exit(daemon.stop_s + SCALE) == 0, "exit 0", daemon.stderr()[-1000:])
    check(time.monotonic() - asked < daemon.stop_s + SCALE, "within stop_s + 1 s", time.monotonic() - asked)
    await_until(lambda: not daemon.everything(), 2, "nothing is left", 0.02)


@test("B4_all_sockets_drop_in_one_go")
def drop(case):
    daemon = case.daemon()
    daemon.chat_until_answered()
    served = daemon.metric("vigil_requests_total", outcome="served")
    generated = daemon.metric("vigil_tokens_total", kind="generated")
    daemon.fake.script(jobs=[[["tokens", 7, 0], ["silent"]]])
    chats = [daemon.chat(stream=i % 2 == 0, text=f"{i}", max_tokens=2000) for i in range(20)]
    daemon.await_requests(running=1, queued=19)
    await_until(lambda: daemon.status()["active"][0]["generated"] == 7, 5 * SCALE, "seven tokens")
    for chat in chats:
        chat.close()
    run_for(1)
    check(daemon.metric("vigil_requests_running") == 0 and daemon.metric("vigil_requests_queued") == 0, "nothing runs, nothing waits")
    check(daemon.idle(daemon.status()), "not busy", daemon.status())
    check(daemon.metric("vigil_requests_total", outcome="cancelled") == 20, "20 cancelled")
    check(daemon.metric("vigil_requests_total", outcome="served") == served, "none served")
    check(daemon.metric("vigil_tokens_total", kind="generated") == generated + 7, "its tokens counted once")
    check(daemon.status()["totals"]["cancelled"] == 20, "the status agrees", daemon.status())
    daemon.alive()


# ---- B5

@test("B5_a_place_is_given_back", 120)
def given_back(case):
    daemon = case.daemon(config={"queue": {"limit": 1}})  # one runs, one waits: two
    gauges = []

    def look():
        requests = daemon.status()["requests"]
        gauges.extend([requests["running"], requests["queued"], requests["loading"], daemon.metric("vigil_requests_running"), daemon.metric("vigil_requests_queued")])
    daemon.fake.script(jobs=LONG)
    first = daemon.chat(stream=True, max_tokens=2000).wait_deltas(1)
    second = daemon.chat(text="second")
    daemon.await_requests(running=1, queued=1)
    for stream in (False, True):
        third = daemon.chat(text="third", stream=stream).wait_end()
        check_error(third, 429, "queue_full", "queue.limit")
        check(third.took_s < 0.1 * SCALE, "within 100 ms", third.took_s)
    first.close()
    second.close()
    for i in range(50):
        stream = daemon.chat(stream=True, text=f"cancel {i}", max_tokens=2000).wait_deltas(1)
        stream.close()
        look()
    await_until(lambda: daemon.idle(daemon.status()), 5 * SCALE, "idle")
    for i in range(50):
        daemon.fake.script(jobs=[["ERR not today"], [["tokens", 1, 0], ["die", 11]], [["answer", 3, 0]]])
        check_error(daemon.chat(text=f"failure {i}").wait_end(), 503, "engine_error")
        if i % 10 == 0:  # some with the death of the engine
            check_error(daemon.chat(text=f"death {i}").wait_end(5 * SCALE), 503, "engine_crashed")
            daemon.chat_until_answered()
        look()
    daemon.fake.script(jobs=[[["answer", 20, 0.02]]])
    two = [daemon.chat(text=f"last {i}") for i in range(2)]
    for chat in two:
        check_answer(chat.wait_end(), case.letters.text(20))
    look()
    check(min(gauges) >= 0, "no gauge below 0", min(gauges))
    totals = daemon.status()["totals"]
    check((totals["failed"], totals["cancelled"], totals["rejected"]) == (55, 52, 2), "each counted once", totals)
    daemon.alive()


# ---- B6

def next_reply(conn, limit_s=5):
    """The reply behind the one that is complete, perhaps already read."""
    conn.forget_reply()
    conn.parse(time.monotonic())
    return conn.wait_end(limit_s * SCALE)


def half_a_body(daemon, path, status, code, headers=(), after=None):
    """Sends half, reads the reply, sends the rest and a GET: either closed and said so, or the GET is answered and nothing else."""
    body = (b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' * 6000)[:200 * 1024]  # a body that looks like requests
    conn = daemon.connect()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    conn.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body[:len(body) // 2])
    if after:
        after()
        conn.send(body[len(body) // 2:])
    conn.wait_end(5 * SCALE)
    check(conn.status == status and conn.json()["error"]["code"] == code, f"{status} {code}", conn.status, bytes(conn.body))
    closing = conn.headers.get("connection") == "close"
    try:
        if not after:
            conn.send(body[len(body) // 2:])
        conn.send(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: right\r\n\r\n")
    except OSError:
        check(closing, "cut off without a word", conn.headers)
    if closing:
        await_until(lambda: conn.ended, 10 * SCALE, "closed, as it said")
        check(not conn.raw, "nothing made of body bytes", bytes(conn.raw[:300]))
    else:
        reply = next_reply(conn)
        check(reply.status == 200 and reply.json()["object"] == "list", "the GET is answered", reply.status, bytes(reply.body))
        run_for(0.1)
        check(not conn.raw and not conn.ended, "and nothing else", bytes(conn.raw[:300]))
    conn.close()


@test("B6a_early_error_and_the_rest_of_the_body")
def early_error(case):
    daemon = case.daemon(config={"api_keys": ["right"], "http": {"body_bytes": 300 * 1024}})
    key = ["x-api-key: right"]
    half_a_body(daemon, "/v1/chat/completions", 401, "invalid_api_key", ["Authorization: Bearer wrong"])
    half_a_body(daemon, "/v1/chat/completions", 401, "invalid_api_key")
    half_a_body(daemon, "/v1/nothing", 404, "not_found", key)
    half_a_body(daemon, "/v1/models", 405, "method_not_allowed", key)
    half_a_body(daemon, "/v1/unload", 413, "request_too_large", key)  # takes no body, and this one is long
    half_a_body(daemon, "/v1/chat/completions", 400, "invalid_json", key, after=lambda: run_for(0.1))
    large = daemon.connect().send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nx-api-key: right\r\nContent-Length: 400000\r\n\r\n" + b"x" * 200000)
    large.wait_end(5 * SCALE)
    check(large.status == 413 and large.headers["connection"] == "close", "413, and closed", large.headers)
    large.send(b"x" * 200000)
    await_until(lambda: large.ended, 10 * SCALE, "closed")
    check(large.ended == "eof" and not large.raw, "cleanly", large.ended, bytes(large.raw[:100]))
    check(daemon.get("/health").status == 200 and daemon.fake.starts == 0, "nobody was asked")


@test("B6a_503_while_loading")
def while_loading(case):
    daemon = case.daemon(engine={"ready_s": 1})
    daemon.fake.script(ready=None)
    good = json.dumps({"messages": [{"role": "user", "content": "x" * 1000}], "padding": "GET /health HTTP/1.1\r\n\r\n" * 9000}).encode()
    conn = daemon.connect()
    conn.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(good) + good[:len(good) // 2])
    run_for(0.2)
    check(conn.status is None, "the body is awaited")
    conn.send(good[len(good) // 2:] + b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    check_error(conn.wait_end(1 + 2 * SCALE), 503, "engine_not_ready")
    reply = next_reply(conn)
    check(reply.status == 200 and reply.json()["object"] == "list" and not conn.raw, "the GET is answered", reply.status, bytes(reply.body))
    daemon.alive()


@test("B6b_delete_without_a_body_then_get")
def delete_then_get(case):
    daemon = case.daemon()
    conn = daemon.connect()
    conn.send(b"DELETE /v1/requests/none HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").wait_end(5 * SCALE)
    check(conn.status == 404, "the first", conn.status)
    second = next_reply(conn)
    check(second.status == 200 and second.json() == {"status": "ok"}, "the second", second.status)
    conn.forget_reply()
    conn.send(b"POST /v1/unload HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").wait_end(5 * SCALE)
    check(conn.status == 200 and next_reply(conn).json() == {"status": "ok"}, "an order by hand without a body too", conn.status)
    daemon.alive()


@test("B6c_two_chats_in_one_write")
def two_chats(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["answer", 20, 0.02]], [["answer", 2, 0]]])
    bodies = [json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": size}).encode() for text, size in (("one", 41), ("two", 42))]
    requests = [b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r%d\r\nContent-Length: %d\r\n\r\n" % (i, len(body)) + body
                for i, body in enumerate(bodies)]
    conn = daemon.connect().send(b"".join(requests)).wait_end(10 * SCALE)
    check_answer(conn, case.letters.text(20))
    check(conn.headers["x-request-id"] == "r0", "in order", conn.headers)
    check_answer(next_reply(conn, 10), case.letters.text(2))
    check(conn.headers["x-request-id"] == "r1", "in order", conn.headers)
    sizes = [text.split(" ")[1] for _, _, text in daemon.fake.generations()]
    check(sizes == ["41", "42"] and not daemon.fake.stops(), "each once", daemon.fake.log())
    daemon.alive()


@test("B6d_lengths_that_contradict_each_other")
def contradiction(case):
    daemon = case.daemon()
    inner = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for headers, body in ((b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + inner),
                          (b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", b"0\r\n\r\n" + inner),
                          (b"Content-Length: 2\r\nContent-Length: 46\r\n", b"{}" + inner), (b"Content-Length: 2, 46\r\n", b"{}" + inner)):
        conn = daemon.connect().send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body).wait_end(5 * SCALE)
        check(conn.status == 400 and conn.json()["error"]["code"] == "invalid_request", "400", headers, conn.status, bytes(conn.body))
        await_until(lambda: conn.ended, 5 * SCALE, "closed")
        check(conn.ended == "eof" and not conn.raw, "and nothing of what was hidden in it is answered", bytes(conn.raw[:200]))
        conn.close()
    daemon.alive()


# ---- B7

MANY = 300_000  # tokens: 60 MB on the wire, and a client that does not read needs no more to be seen


def stuck_reader(daemon, tokens):
    """Takes the headers, then reads nothing."""
    conn = daemon.connect(receive_buffer=4096, reading=False)
    conn.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "stuck"}], "max_tokens": tokens, "stream": True})
    head = conn.socket.recv(200)
    check(head.startswith(b"HTTP/1.1 200 "), "the headers", head)
    conn.raw += head
    return conn


@test("B7_reader_that_stops_reading", 120)
def stops_reading(case):
    """Alone on its engine: held back for T_write, then dropped and its job stopped. The default buffer of 8 MiB."""
    daemon = case.daemon(config={"http": {"write_s": T_WRITE}}, engine={"stall_s": 1})
    job = [["answer", MANY, 0]]
    daemon.fake.script(ready="READY 1000000 stop", jobs=[[["answer", 3, 0]], job, [["answer", 3, 0]]])
    daemon.chat_until_answered()
    held = procs.memory_kib(daemon.pid, "VmRSS")
    procs.forget_peak_memory(daemon.pid)
    stuck = stuck_reader(daemon, MANY)
    await_until(lambda: daemon.status()["totals"]["cancelled"] == 1, T_WRITE + 10 * SCALE, "it is dropped after T_write", 0.05)
    check(daemon.status()["totals"]["served"] == 1, "cancelled, not served", daemon.status())
    check_answer(daemon.chat(text="B").wait_end(2 * SCALE), case.letters.text(3))
    check(len(daemon.fake.stops()) == 1 and daemon.fake.starts == 1, "its job was stopped, the engine is not to blame", daemon.fake.log("start"))
    grown = procs.memory_kib(daemon.pid, "VmHWM") - held
    print(f"memory grew by {grown} KiB")
    check(grown < 8 * 1024 + 2048 or SCALE > 1, "memory grows by no more than the cap for one client, 8 MiB", grown)
    stuck.close()
    daemon.alive()


@test("B7_neighbour_of_a_stuck_reader_is_not_slowed", 120)
def neighbour(case):
    daemon = case.daemon(config={"http": {"write_s": 30}}, engine={"stall_s": 1})
    daemon.fake.script(ready="READY 1000000 stop ids slots=2", jobs=[[["answer", 3, 0]], [["answer", MANY, 0]], [["answer", 3, 0.01]]])
    daemon.chat_until_answered()
    stuck = stuck_reader(daemon, MANY)
    slowest = 0
    for i in range(5):
        asked = time.monotonic()
        chat = daemon.chat(text=f"B {i}").wait_end(5 * SCALE)
        check_answer(chat, case.letters.text(3))
        slowest = max(slowest, chat.took_s)
        run_for(max(0, 1 - (time.monotonic() - asked)))
    check(slowest < SCALE, "B is not slowed", slowest)
    status = daemon.status()
    check(status["totals"]["cancelled"] == 1 and status["totals"]["served"] == 6, "A was ended at once when B needed the pipe", status)
    stuck.close()
    daemon.alive()


@test("B7_reader_that_resumes_in_time", 120)
def resumes(case):
    daemon = case.daemon(config={"http": {"write_s": 20, "write_buffer_bytes": 1 << 20}}, engine={"stall_s": 1, "silence_s": 2})
    many = 60_000
    daemon.fake.script(ready="READY 1000000 stop", jobs=[[["answer", many, 0]]])
    stuck = stuck_reader(daemon, many)
    run_for(4)  # longer than stall_s and silence_s
    check(daemon.status()["requests"]["running"] == 1 and not daemon.fake.log("sent", "DONE"), "the engine is held back", daemon.status())
    stuck.resume()
    check_answer(stuck.wait_end(60 * SCALE), case.letters.text(many))  # to the letter: no gap
    check(daemon.status()["totals"]["served"] == 1 and daemon.fake.starts == 1, "served whole by one engine", daemon.status())
    daemon.alive()
