"""Messages, responses and embeddings over real sockets: keep-alives, failures in mid-stream, errors of the head, vectors."""
import base64
import json
import signal
import struct

from client import SCALE, await_until, check
from registry import test

MESSAGE = {"max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
ROUTES = (("/v1/messages", MESSAGE), ("/v1/responses", {"input": "hi"}))


def stream(daemon, path, body):
    return daemon.request("POST", path, {**body, "stream": True})


def named(conn):
    """The names of all events; a name is its data's type."""
    out = []
    for block in bytes(conn.body).decode().split("\n\n"):
        lines = block.split("\n")
        if len(lines) == 2 and lines[0].startswith("event: "):
            data = json.loads(lines[1].removeprefix("data: "))
            check(data["type"] == lines[0][7:], "an event's name is its type", block)
            out.append(data)
    return out


@test("messages_and_responses_are_kept_alive")
def kept_alive(case):
    daemon = case.daemon(config={"http": {"commit_s": 0.2, "keepalive_s": 0.2}})
    daemon.fake.script(jobs=[[["sleep", 1.2], ["answer", 2, 0]]])
    for path, body in ROUTES:
        conn = stream(daemon, path, body).wait_end(10 * SCALE)
        types = [event["type"] for event in named(conn)]
        if path == "/v1/messages":
            first = types.index("message_start")
            check(first >= 2 and set(types[:first]) == {"ping"}, "pings before the message", types)
            check(types[-1] == "message_stop", "a whole message", types)
        else:
            check(types[:3] == ["response.created", "response.in_progress", "response.in_progress"] and types.count("response.created") == 1, "in_progress again and again", types)
            numbers = [event["sequence_number"] for event in named(conn)]
            check(numbers == list(range(len(numbers))) and types[-1] == "response.completed", "numbers without a gap", numbers, types)
    daemon.alive()


@test("messages_and_responses_fail_in_mid_stream")
def fail_in_mid_stream(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 2, 0], ["sleep", 0.1], ["die", int(signal.SIGKILL)]]])
    for path, body in ROUTES:
        await_until(lambda: daemon.status()["engine"]["state"] != "backoff", 10 * SCALE, "a start is free")
        conn = stream(daemon, path, body).wait_end(10 * SCALE)
        last = named(conn)[-1]
        check(conn.status == 200 and conn.complete, "a whole body", conn.status)
        error = last["error"] if path == "/v1/messages" else last["response"]["error"]
        check(last["type"] == ("error" if path == "/v1/messages" else "response.failed"), "the failure is the last event", last)
        check(error["code"] == "engine_crashed" and "SIGKILL" in error["message"], "it says what happened", error)
    daemon.fake.script(jobs=[[["answer", 3, 0]]])
    daemon.alive()


@test("messages_errors_of_the_head")
def errors_of_the_head(case):
    daemon = case.daemon(config={"api_keys": ["secret"], "http": {"body_bytes": 4096}})
    daemon.fake.script(jobs=[[["answer", 2, 0]]])
    for headers, status, kind in (({}, 401, "authentication_error"), ({"x-api-key": "wrong"}, 401, "authentication_error"), ({"x-api-key": "secret"}, 200, None),
                                  ({"Authorization": "Bearer secret"}, 200, None)):
        conn = daemon.request("POST", "/v1/messages", MESSAGE, headers).wait_end(10 * SCALE)
        check(conn.status == status, f"status {status}", conn.status, bytes(conn.body))
        if kind:
            check(conn.json()["type"] == "error" and conn.json()["error"]["type"] == kind, kind, conn.json())
    big = {**MESSAGE, "system": "x" * 8192}
    conn = daemon.request("POST", "/v1/messages", big, {"x-api-key": "secret"}).wait_end(10 * SCALE)
    check(conn.status == 413 and conn.json()["error"]["type"] == "request_too_large", "413 in its shape", conn.status, bytes(conn.body))
    conn = daemon.request("GET", "/v1/messages", None, {"x-api-key": "secret"}).wait_end(10 * SCALE)
    check(conn.status == 405 and "POST" in conn.headers["allow"], "405", conn.status, bytes(conn.body))


@test("embeddings_over_the_line_protocol")
def embeddings(case):
    daemon = case.daemon()
    numbers = base64.b64encode(struct.pack("<3f", 3, 0, -4)).decode()
    daemon.fake.script(ready="READY 4096 stop embeddings", jobs=[["V 0 " + numbers, "DONE 0 2 1 1 stop"]])
    conn = daemon.request("POST", "/v1/embeddings", {"input": ["one", "two", "three"]}).wait_end(10 * SCALE)
    check(conn.status == 200, "200", conn.status, bytes(conn.body))
    data = conn.json()["data"]
    check(len(data) == 3 and all(abs(a - b) < 1e-6 for row in data for a, b in zip(row["embedding"], [0.6, 0, -0.8])), "three unit vectors", data)
    check(len(daemon.fake.log("read", "EMB pool=mean ")) == 3, "one EMB a text", daemon.fake.log("read"))
    conn = daemon.request("POST", "/v1/embeddings", {"input": "one", "encoding_format": "base64"}).wait_end(10 * SCALE)
    vector = struct.unpack("<3f", base64.b64decode(conn.json()["data"][0]["embedding"]))
    check(abs(vector[2] + 0.8) < 1e-6, "base64 of the same", vector)
    daemon.alive()


@test("embeddings_need_an_engine_that_gives_them")
def no_embeddings(case):
    daemon = case.daemon()
    conn = daemon.request("POST", "/v1/embeddings", {"input": "one"}).wait_end(10 * SCALE)
    check(conn.status == 400 and "embeddings" in conn.json()["error"]["message"], "a clear 400", conn.status, bytes(conn.body))
    check(not daemon.fake.log("read", "EMB"), "it is never sent EMB")
    daemon.alive()
