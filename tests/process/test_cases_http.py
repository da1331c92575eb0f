"""Cases C7 to C9 and the contract's HTTP: bodies that should not kill us, their transport, browsers, keys, paths. Raw sockets where it matters."""
import base64
import json
import os
import signal
import time

import procs
from client import SCALE, await_until, check, run_for
from harness import check_answer, check_error
from registry import test


def message(content):
    return b'{"messages":[{"role":"user","content":"' + content + b'"}],"max_tokens":3}'


def hi(more):
    return b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,' + more + b"}"


def post_head(length, headers=b"", path=b"/v1/chat/completions"):
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + (b"Content-Length: %d\r\n" % length if length is not None else b"") + b"\r\n"


def valid_json_error(reply, status, code):
    """Right status and code, JSON, valid UTF-8, message and type."""
    check(reply.status == status, f"status {status}", reply.status, bytes(reply.body)[:300])
    check(reply.headers["content-type"].startswith("application/json"), "JSON", reply.headers)
    error = json.loads(bytes(reply.body).decode("utf-8"))["error"]
    check(error["code"] == code and error["message"] and error["type"], f"code {code}", error)
    check(reply.headers.get("x-request-id"), "X-Request-Id", reply.headers)
    return error


# ---- C7

def malformed():
    """name, body, code, words of the message"""
    yield "cut character", message(b"abc \xe6\x97"), "invalid_json", "byte"
    yield "overlong character", message(b"\xc0\xaf"), "invalid_json", "byte"
    yield "surrogate in UTF-8", message(b"\xed\xa0\x80"), "invalid_json", "byte"
    yield "bytes of no character", message(b"\xff\xfe\x80"), "invalid_json", "byte"
    yield "lone surrogate escape", message(b"\\ud83d"), "invalid_json", "byte"
    yield "two high surrogates", message(b"\\ud83d\\ud83d"), "invalid_json", "byte"
    yield "raw control character", message(b"a\nb"), "invalid_json", "byte"
    yield "raw NUL", message(b"a\0b"), "invalid_json", "byte"
    yield "NUL behind the end", message(b"a") + b"\0", "invalid_json", "byte"
    yield "trailing comma", b'{"messages":[],}', "invalid_json", "byte"
    yield "array on top", b"[1,2,3]", "invalid_request", "object"
    yield "number on top", b"7", "invalid_request", "object"
    yield "null on top", b"null", "invalid_request", "object"
    yield "empty", b"", "invalid_json", "empty"
    yield "blank", b" \r\n\t ", "invalid_json", "byte"
    yield "byte order mark alone", b"\xef\xbb\xbf", "invalid_json", "byte"
    yield "deep unknown field", hi(b'"x":' + b"[" * 100000 + b"]" * 100000), "invalid_json", "max_json_depth"
    yield "deep and never closed", b'{"a":' * 200000, "invalid_json", "max_json_depth"
    yield "deep tool schema", hi(b'"tools":[{"type":"function","function":{"name":"f","parameters":' + b'{"properties":{"a":' * 20000 + b"{}" + b"}}" * 20000 + b"}}]"), \
        "invalid_json", "max_json_depth"
    yield "number beyond any double", hi(b'"top_p":1e400'), "invalid_json", "byte"
    yield "long number", hi(b'"top_p":' + b"9" * 100000), "invalid_json", ""
    yield "half a word", b'{"messages":tru', "invalid_json", "byte"
    yield "keys only", b'{"messages"', "invalid_json", "byte"


def wrong():
    """name, body, field"""
    yield "huge seed", hi(b'"seed":99999999999999999999999'), "seed"
    yield "small top_k", hi(b'"top_k":-9223372036854775809'), "top_k"
    yield "no messages", b'{"messages":[]}', "messages"
    yield "messages of the wrong kind", b'{"messages":{"role":"user"}}', "messages"
    yield "message of the wrong kind", b'{"messages":[[]]}', "messages[0]"
    yield "content of the wrong kind", b'{"messages":[{"role":"user","content":{"a":1}}]}', "messages[0].content"
    yield "role of bad text", b'{"messages":[{"role":"us\\u0000er","content":"hi"}]}', "messages[0].role"
    yield "stop of the wrong kind", hi(b'"stop":[1]'), "stop"
    yield "bias for no token", hi(b'"logit_bias":{"999999999":1}'), "logit_bias"
    yield "bias for no number", hi(b'"logit_bias":{"\\ud83d\\ude00":1}'), "logit_bias"


@test("C7_malformed_bodies", 120)
def malformed_bodies(case):
    daemon = case.daemon()
    daemon.chat_until_answered()
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/tokenize", "/v1/detokenize"):
        for name, body, code, word in malformed():
            reply = daemon.request("POST", path, body).wait_end(5 * SCALE)
            error = valid_json_error(reply, 400, code)
            check(word in error["message"], f"{name}: {word!r} in the message", error)
            check(len(error["message"]) < 600, f"{name}: a short message", len(error["message"]))
            check(reply.took_s < SCALE, f"{name}: within 1 s", reply.took_s)
            daemon.conns.pop().close()
    for name, body, field in wrong():
        reply = daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE)
        check(valid_json_error(reply, 400, "invalid_request")["param"] == field, f"{name}: names {field}", bytes(reply.body))
    check(len(daemon.fake.generations()) == 1, "no engine was asked", daemon.fake.log())
    daemon.alive()


@test("C7_each_malformed_body_leaves_us_alive", 240)
def each_alive(case):
    daemon = case.daemon()
    for name, body, code, _ in malformed():
        print(name)
        valid_json_error(daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE), 400, code)
        daemon.alive()


@test("C7_cyclic_schema_and_names_of_bad_bytes")
def cyclic(case):
    daemon = case.daemon(config={"model_name": "maker/model:1"})
    schema = b'{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}'
    for body in (hi(b'"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":' + schema + b"}}"), hi(b'"guided_json":' + schema)):
        reply = daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE)
        check(reply.status in (200, 400) and reply.took_s < SCALE, "an answer or a 400 within 1 s", reply.status, reply.took_s)
        if reply.status == 400:
            check(valid_json_error(reply, 400, "invalid_request")["param"], "names the field", bytes(reply.body))
    for name, status in ((b"no\\u0000ne", 404), (b"\\u2028\\ufffe", 404), (b"x" * 100000, 404), (b"%ff%fe", 404), (b"../../etc/passwd", 404), (b"\xff", 400)):
        reply = daemon.request("POST", "/v1/chat/completions", hi(b'"model":"' + name + b'"')).wait_end(5 * SCALE)
        error = valid_json_error(reply, status, "model_not_found" if status == 404 else "invalid_json")
        check(len(error["message"]) < 600, "a short message", len(error["message"]))
    for path in (b"/v1/models/%FF%FE%80", b"/v1/models/\xff\xfe", b"/v1/models/%00", b"/v1/models/" + b"x" * 20000, b"/v1/models/%F0%9F%98"):
        conn = daemon.connect().send(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").wait_end(5 * SCALE)
        check(len(valid_json_error(conn, 404, "model_not_found")["message"]) < 1500, "a short message", len(conn.body))
    for header in (b"X-Request-Id: \xff\xfe", b"Authorization: \xff\xfe", b"Origin: \xff\xfe", b"User-Agent: \xff"):
        conn = daemon.connect().send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n").wait_end(5 * SCALE)
        check(conn.status in (200, 403) and conn.headers["x-request-id"].isascii(), "bad bytes in a header", header, conn.status)
    daemon.alive()


@test("C7_long_runs_of_one_character", 120)
def runs(case):
    daemon = case.daemon(None)  # our own tokenizer and engine
    daemon.chat_until_answered()
    for name, run in (("letters", b"x"), ("dots", b"."), ("blanks", b" "), ("characters of three bytes", "日".encode()), ("line ends", b"\\n"),
                      ("characters of four bytes", "\U0001f600".encode()), ("combining marks", "\u0301".encode()), ("digits", b"7"), ("quotes", b"\\\"")):
        reply = daemon.request("POST", "/v1/chat/completions", message(run * 65536)).wait_end(5 * SCALE)
        if reply.status != 200:
            error = valid_json_error(reply, 400, "context_length_exceeded")
            check(sum(char.isdigit() for char in error["message"]) > 4, "both numbers", error)
        check(reply.took_s < 5 * SCALE, f"{name}: within 5 s", reply.took_s)
        tokens = daemon.request("POST", "/v1/tokenize", b'{"text":"' + run * 65536 + b'"}').wait_end(5 * SCALE)  # the whole run through the tokenizer
        check(tokens.status == 200 and len(tokens.json()["tokens"]) > 100 and tokens.took_s < 5 * SCALE, f"{name}: ids within 5 s", tokens.status, tokens.took_s)
        back = daemon.request("POST", "/v1/detokenize", tokens.json()).wait_end(5 * SCALE)
        check(back.json()["text"] == json.loads(b'"' + run + b'"') * 65536, f"{name}: there and back")
        print(name, reply.status, f"{reply.took_s:.2f} s, ids {tokens.took_s:.2f} s")
    daemon.alive(fake=False)


# ---- C8

def chunked(body, cuts, extension=b"", trailer=b""):
    """The body as chunks that end at `cuts`."""
    ends = [*cuts, len(body)]
    out, start = b"", 0
    for end in ends:
        out += b"%x%s\r\n%s\r\n" % (end - start, extension, body[start:end])
        start = end
    return out + b"0" + extension + b"\r\n" + trailer + b"\r\n"


@test("C8a_chunked_bodies")
def chunked_bodies(case):
    daemon = case.daemon()
    body = '{"messages":[{"role":"user","content":"a 日本 é"}],"max_tokens":3}'.encode()
    plain = daemon.connect().send(post_head(len(body)) + body).wait_end()
    check_answer(plain, case.letters.text(3))
    inside = body.index("日".encode()) + 1
    head = post_head(None, b"Transfer-Encoding: chunked\r\n")
    whole = chunked(body, [inside, inside + 1], b';a=b;c="d e"', b"X-Trailer: 1\r\nX-Request-Id: not-taken\r\n")
    size_line = whole.index(b"\r\n") - 1
    for pieces in ([whole], [whole[:1], whole[1:]], [whole[:size_line], whole[size_line:]], [bytes([byte]) for byte in whole]):
        conn = daemon.connect().send(head)
        for piece in pieces:
            conn.send(piece)
            run_for(0 if len(pieces) == 1 else 0.002)
        check_answer(conn.wait_end(), case.letters.text(3))
        check(conn.headers["x-request-id"] != "not-taken", "a trailer is no header", conn.headers)
    prompts = {line.rsplit(" ", 1)[1] for _, _, line in daemon.fake.generations()}
    check(len(prompts) == 1 and len(daemon.fake.generations()) == 5, "the same prompt each time", prompts)
    for bad in (b"zz\r\n", b"-1\r\n", b"0x5\r\nabcde\r\n0\r\n\r\n", b"\r\n", b"5\nabcde\n0\n\n", b"3\r\nabcXY\r\n", b"3\r\nabcde\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b" 3\r\nabc\r\n",
                b"3;" + b"e" * 40000, b"0\r\nX: " + b"t" * 40000 + b"\r\n\r\n", b"0\r\nno colon\r\n\r\n"):
        conn = daemon.connect().send(head + bad)
        valid_json_error(conn.wait_end(5 * SCALE), 400, "invalid_request")
        await_until(lambda: conn.ended, 10 * SCALE, f"closed after {bad[:20]!r}")
        check(conn.ended == "eof" and not conn.raw, "cleanly", conn.ended)
    daemon.alive()


@test("C8b_expect_100_continue")
def expect(case):
    daemon = case.daemon(config={"api_keys": ["right"], "http": {"body_bytes": 100000}})
    body = hi(b'"seed":1')
    conn = daemon.connect().send(post_head(len(body), b"Expect: 100-continue\r\nAuthorization: Bearer right\r\n"))
    await_until(lambda: conn.continued, 5 * SCALE, "100 Continue")
    check(conn.status is None, "and no answer yet", conn.status)
    check_answer(conn.send(body).wait_end(), case.letters.text(3))
    for headers, length, status, code in ((b"Authorization: Bearer wrong\r\n", 1000, 401, "invalid_api_key"), (b"Authorization: Bearer right\r\n", 100001, 413, "request_too_large")):
        conn = daemon.connect().send(post_head(length, b"Expect: 100-continue\r\n" + headers))
        valid_json_error(conn.wait_end(5 * SCALE), status, code)
        check(not conn.continued and conn.headers["connection"] == "close", "without asking for the body", conn.headers)
    check(len(daemon.fake.generations()) == 1, "one request", daemon.fake.log())


@test("C8c_limits_and_claims", 120)
def limits(case):
    limit = 200_000
    daemon = case.daemon(config={"http": {"body_bytes": limit, "body_s": 5}})
    daemon.chat_until_answered()
    for size in (limit - 1, limit, limit + 1):
        body = hi(b'"x":"%s"')
        body = body.replace(b"%s", b"x" * (size - len(body) + 2))
        check(len(body) == size, "the size", len(body))
        for data in (post_head(size) + body, post_head(None, b"Transfer-Encoding: chunked\r\n") + chunked(body, range(50_000, size, 50_000))):
            conn = daemon.connect().send(data).wait_end(5 * SCALE)
            if size <= limit:
                check_answer(conn, case.letters.text(3))
            else:
                error = valid_json_error(conn, 413, "request_too_large")
                check("http.body_bytes" in error["message"] and str(limit) in error["message"], "the limit and its key", error)
    for claim in (10 ** 12, 2 ** 63 - 1, 2 ** 64 - 1):
        before = procs.memory_kib(daemon.pid, "VmSize")
        conn = daemon.connect().send(post_head(claim) + b"abc").wait_end(5 * SCALE)
        valid_json_error(conn, 413, "request_too_large")
        check(procs.memory_kib(daemon.pid, "VmSize") < before + 4096 or SCALE > 1, "nothing was allocated from the claim")
    valid_json_error(daemon.connect().send(post_head(10 ** 25)).wait_end(5 * SCALE), 400, "invalid_request")
    endless = daemon.connect().send(post_head(None, b"Transfer-Encoding: chunked\r\n"))
    procs.forget_peak_memory(daemon.pid)
    held = procs.memory_kib(daemon.pid, "VmRSS")
    for _ in range(400):  # 4 MB, far beyond the limit: the answer must come through all the same
        try:
            endless.send(b"2710\r\n" + b"x" * 10000 + b"\r\n")
        except OSError:
            break
    valid_json_error(endless.wait_end(5 * SCALE), 413, "request_too_large")
    check(procs.memory_kib(daemon.pid, "VmHWM") < held + 4096 or SCALE > 1, "bounded memory")
    daemon.alive()


@test("C8d_slow_headers_and_bodies")
def slow(case):
    daemon = case.daemon(config={"http": {"header_s": 3, "body_s": 3}})
    daemon.chat_until_answered()
    header, body, mute = daemon.connect(), daemon.connect(), daemon.connect()
    body.send(post_head(1000))
    text = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 1000
    started = time.monotonic()
    for i in range(20):  # a byte a second
        if header.complete and body.complete and mute.ended:
            break
        for conn, byte in ((header, text[i:i + 1]), (body, b"x")):
            if not conn.complete and not conn.ended:
                conn.send(byte)
        check_answer(daemon.chat(text=f"other {i}").wait_end(SCALE), case.letters.text(3))  # others are served
        run_for(max(0.0, started + i + 1 - time.monotonic()))
    for conn, key in ((header, "http.header_s"), (body, "http.body_s")):
        error = valid_json_error(conn, 408, "request_timeout")
        check(key in error["message"] and "3 s" in error["message"], "the limit and its key", error)
        check(2.9 < conn.complete_at - started < 4 + SCALE, "in time", conn.complete_at - started)
        await_until(lambda: conn.ended, 8 * SCALE, "closed")
    check(mute.ended == "eof" and not mute.raw, "who says nothing is closed without a word", mute.ended)
    daemon.alive()


@test("C8e_largest_picture_fits_the_body")
def picture(case):
    daemon = case.daemon()
    defaults = json.loads(case.vigil("check").stdout)
    size = defaults["vision"]["image_bytes"]
    check(size * 4 // 3 + 65536 < defaults["http"]["body_bytes"], "the promised picture fits the promised body", defaults["http"])
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(size - 8))
    reply = daemon.request("POST", "/v1/chat/completions",
                           b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,' + data + b'"}}]}]}').wait_end(20 * SCALE)
    error = valid_json_error(reply, 400, "image_invalid")  # a model without a projector takes none; never 413
    check("messages[0].content[0]" in error["message"], "which part", error)
    check(daemon.get("/health").took_s < 0.2 * SCALE, "health at once")
    daemon.alive()


# ---- C9

ORIGIN = "https://app.example"


def cors(conn):
    return {name: value for name, value in conn.headers.items() if name.startswith("access-control-allow-origin")}


def head_only(daemon, path, headers=()):
    """A HEAD and a GET behind it on one connection: the GET's reply must follow the head at once."""
    lines = "".join(f"{line}\r\n" for line in headers)
    conn = daemon.connect()
    conn.send(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await_until(lambda: conn.raw.endswith(b'{"status":"ok"}') or conn.status and bytes(conn.body).endswith(b'"ok"}'), 5 * SCALE, "both replies")
    return conn


@test("C9_browser_preflight_and_origins")
def browser(case):
    daemon = case.daemon(config={"api_keys": ["right"], "cors_origins": [ORIGIN]})
    ask = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/tokenize", "/v1/models", "/v1/requests/x"):
        reply = daemon.request("OPTIONS", path, headers=ask)
        reply.wait_head(5 * SCALE)
        check(200 <= reply.status < 300 and cors(reply) == {"access-control-allow-origin": ORIGIN}, "OPTIONS without a key", path, reply.status, reply.headers)
        allowed = reply.headers["access-control-allow-headers"].lower()
        check("authorization" in allowed and "content-type" in allowed and reply.headers["access-control-allow-methods"], "authorization allowed", reply.headers)
        reply.close()
        reply = daemon.request("OPTIONS", path, headers={**ask, "Origin": "https://evil.example"})
        reply.wait_head(5 * SCALE)
        check(not [name for name in reply.headers if name.startswith("access-control")], "a foreign origin gets none", reply.headers)
        reply.close()
    bad = daemon.request("POST", "/v1/chat/completions", {"messages": []}, {"Origin": ORIGIN, "Authorization": "Bearer wrong"}).wait_end()
    check_error(bad, 401, "invalid_api_key")
    stream = daemon.chat(stream=True, headers={"Origin": ORIGIN, "Authorization": "Bearer right"}).wait_end()
    check_answer(stream, case.letters.text(3))
    invalid = daemon.request("POST", "/v1/chat/completions", b"{", {"Origin": ORIGIN, "Authorization": "Bearer right"}).wait_end()
    check_error(invalid, 400, "invalid_json")
    for reply in (bad, stream, invalid):
        check(cors(reply) == {"access-control-allow-origin": ORIGIN} and reply.headers["vary"] == "Origin", "the same CORS headers", reply.headers)
    foreign = daemon.chat(stream=True, headers={"Origin": "https://evil.example", "Authorization": "Bearer right"}).wait_end()
    check(foreign.status == 200 and not cors(foreign), "a foreign origin gets none", foreign.headers)


@test("C9_head_and_methods")
def head(case):
    daemon = case.daemon()
    for path, status in (("/health", 200), ("/v1/models", 200), ("/ready", 200), ("/v1/nothing", 404), ("/v1/chat/completions", 405)):
        conn = head_only(daemon, path)
        check(conn.status == status, f"HEAD {path}", conn.status)
        taken = bytes(conn.body) + bytes(conn.raw)
        check(taken.startswith(b"HTTP/1.1 200 OK\r\n"), "no body between", taken[:100])
        get = daemon.get(path)
        same = {name: value for name, value in get.headers.items() if name not in ("date", "x-request-id") and (name != "content-length" or status != 405)}  # a 405 names the method
        check({name: conn.headers.get(name) for name in same} == same, "the same headers as GET", conn.headers, get.headers)
    for method, path, allow in (("GET", "/v1/chat/completions", {"POST", "OPTIONS"}), ("POST", "/v1/models", {"GET", "HEAD", "OPTIONS"}),
                                ("PUT", "/health", {"GET", "HEAD", "OPTIONS"}), ("GET", "/v1/requests/x", {"DELETE", "OPTIONS"}), ("TRACE", "/health", {"GET", "HEAD", "OPTIONS"})):
        reply = daemon.request(method, path).wait_end()
        valid_json_error(reply, 405, "method_not_allowed")
        check(set(reply.headers["allow"].split(", ")) == allow, "Allow", reply.headers)
    daemon.alive()


@test("C9_odd_paths")
def paths(case):
    daemon = case.daemon(config={"model_name": "a/b:c", "aliases": ["plain", "é x"]})
    listed = daemon.get("/v1/models").json()["data"]
    check([entry["id"] for entry in listed] == ["a/b:c", "plain", "é x"], "ids and aliases", listed)
    for path in ("/v1//models", "/v1/models/", "//v1/models", "/v1/models//", "/v1/models?a=b", "/v1/models?%zz", "http://localhost/v1/models"):
        check(daemon.get(path).json().get("data") == listed, f"{path} is the list", bytes(daemon.get(path).body))
    for path, name in (("/v1/models/a/b:c", "a/b:c"), ("/v1/models/a%2Fb:c", "a/b:c"), ("/v1/models/a%2fb%3Ac", "a/b:c"), ("/v1//models//a/b:c/", "a/b:c"),
                       ("/v1/models/plain", "plain"), ("/v1/models/%C3%A9%20x", "é x")):
        entry = daemon.get(path)
        check(entry.status == 200 and entry.json()["id"] == name, f"{path} is found", entry.status, bytes(entry.body))
        check(entry.json()["object"] == "model" and isinstance(entry.json()["created"], int) and entry.json()["owned_by"], "its fields", entry.json())
    for path, code in (("/v1/models/a", "model_not_found"), ("/v1/models/a%252Fb:c", "model_not_found"), ("/v1/models/..", "model_not_found"), ("/v1/../v1/models", "not_found"),
                       ("/v1/%2e%2e/health", "not_found"), ("/..", "not_found"), ("/", "not_found"), ("/v1", "not_found"), ("/V1/models", "not_found"),
                       ("/v1%2Fmodels", "not_found"), ("/health/x", "not_found"), ("/favicon.ico", "not_found"), ("/%00", "not_found")):
        valid_json_error(daemon.get(path), 404, code)
    for path in ("/%zz", "/v1/models/%", "/v1/models/%f"):
        valid_json_error(daemon.get(path), 400, "invalid_request")
    chat = daemon.request("POST", "/v1/chat/completions", {"model": "a/b:c", "messages": [{"role": "user", "content": "hi"}]}).wait_end()
    check_answer(chat, case.letters.text(3))
    daemon.alive()


@test("C9_keys_and_their_reload")
def keys(case):
    path = os.path.join(case.folder, "keys")

    def write(*lines):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)
    write("# keys", "", "first-key", "second-key")
    daemon = case.daemon(config={"api_key_file": path, "api_keys": ["in-the-file"]})

    def status(*headers, where="/v1/models"):
        conn = daemon.connect().send(("GET " + where + " HTTP/1.1\r\nHost: rebound.example\r\n" + "".join(f"{h}\r\n" for h in headers) + "\r\n").encode()).wait_end()
        if conn.status == 401:
            valid_json_error(conn, 401, "invalid_api_key")
            check("www-authenticate" in conn.headers, "WWW-Authenticate", conn.headers)
        return conn.status
    for good in ("Authorization: Bearer first-key", "Authorization: bearer second-key", "authorization: BEARER   first-key  ", "x-api-key: in-the-file", "X-API-Key: first-key"):
        check(status(good) == 200, "200", good)
    for bad in ("Authorization: Bearer ", "Authorization: Bearer", "Authorization: first-key", "Authorization: Basic first-key", "Authorization: Bearer first-ke",
                "Authorization: Bearer first-key2", "Authorization: Bearer FIRST-KEY", "x-api-key:", "x-api-key: # keys", "Authorization: Bearer first-key,second-key", "X: y"):
        check(status(bad) == 401, "401", bad)
    for free in ("/health", "/ready"):
        check(status(where=free) == 200, "no key needed", free)
    for closed in ("/status", "/metrics", "/v1/models"):
        check(status(where=closed) == 401, "a key needed", closed)
    idle = daemon.connect()
    idle.request("GET", "/v1/models", headers={"x-api-key": "first-key"}).wait_end()
    check(idle.status == 200, "a connection from before", idle.status)
    write("third-key")
    daemon.signal(signal.SIGHUP)
    await_until(lambda: status("x-api-key: third-key") == 200, 5 * SCALE, "the key file is read anew", 0.05)
    check(status("x-api-key: first-key") == 401, "a key that was taken out is refused")
    idle.forget_reply()
    check(idle.request("GET", "/v1/models", headers={"x-api-key": "first-key"}).wait_end().status == 401, "on connections from before too", idle.status)
    write("")
    daemon.signal(signal.SIGHUP)
    await_until(lambda: "nothing was changed" in daemon.stderr(), 5 * SCALE, "an empty key file changes nothing")
    check(status("x-api-key: third-key") == 200 and status() == 401, "and opens no door")
    for wrong_file in ([""], ["", "  "], ["# only"]):
        write(*wrong_file)
        refused = case.vigil("serve", "--port", "0", "--set", f"api_key_file={path}")
        check(refused.returncode == 2 and "key" in refused.stderr, "refused at the start", refused)


@test("C9_host_and_origin_without_a_key")
def host(case):
    daemon = case.daemon(config={"allowed_hosts": ["box.lan"], "cors_origins": [ORIGIN]})

    def status(name, *headers):
        lines = "".join(f"{line}\r\n" for line in headers)
        conn = daemon.connect().send(f"POST /v1/tokenize HTTP/1.1\r\nHost: {name}\r\n{lines}Content-Length: 13\r\n\r\n{{\"text\":\"hi\"}}".encode()).wait_end()
        if conn.status == 403:
            valid_json_error(conn, 403, "host_not_allowed")
        return conn.status
    for good in ("localhost", f"127.0.0.1:{daemon.port}", "box.lan", "BOX.LAN:80", "[::1]", "app.localhost"):
        check(status(good) == 200, "allowed", good)
    for bad in ("rebound.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "box.lan.evil", "", "a b"):
        check(status(bad) in (403, 400), "refused", bad)
    check(status("localhost", f"Origin: {ORIGIN}") == 200 and status("localhost", "Origin: http://localhost:3000") == 200, "pages of ours")
    for bad in ("https://evil.example", "null", "file://"):
        check(status("localhost", f"Origin: {bad}") == 403, "a foreign page", bad)
    two = daemon.connect().send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: box.lan\r\n\r\n").wait_end()
    none = daemon.connect().send(b"GET /health HTTP/1.1\r\n\r\n").wait_end()
    check(two.status == 400 and none.status == 400, "exactly one Host", two.status, none.status)
    daemon.alive()


@test("every_answer_has_a_request_id")
def request_ids(case):
    daemon = case.daemon(config={"http": {"header_bytes": 2000, "connections": 3}})
    seen = set()
    for data in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3000,
                 b"GET /health HTTP/3.0\r\n\r\n", b"GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 post_head(5) + b"[1,2]", post_head(2) + b"{}", b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"):
        conn = daemon.connect().send(data).wait_head(5 * SCALE)
        seen.add(conn.headers.get("x-request-id"))
        conn.close()
    check(None not in seen and len(seen) == 10, "ten ids", seen)
    own = daemon.connect().send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: my-own.id_1\r\n\r\n").wait_end()
    check(own.headers["x-request-id"] == "my-own.id_1", "the client's own is kept", own.headers)
    own.close()
    held = [daemon.connect().send(post_head(5)) for _ in range(3)]
    refused = daemon.connect().send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").wait_end(5 * SCALE)
    error = valid_json_error(refused, 429, "queue_full")
    check("http.connections" in error["message"] and "retry-after" in refused.headers, "one connection too many", error)
    for conn in held:
        conn.close()
    await_until(lambda: daemon.get("/health").status == 200, 5 * SCALE, "room for connections again")  # that they left is still to be seen
    daemon.alive()


@test("short_descriptors_leave_room_for_children")
def short_descriptors(case):
    """A process that may open few files: connections that nobody uses give way, and an engine can be started with the house full."""
    daemon = case.daemon(prefix=["bash", "-c", 'ulimit -n 200; exec "$@"', "bash"])
    check("room for 40 connections" in daemon.stderr(), "said at the start", daemon.stderr())
    idle = [daemon.connect() for _ in range(30)]
    for conn in idle:
        conn.request("GET", "/health").wait_end()
    waiting = [daemon.connect().send(post_head(5)) for _ in range(39)]  # they take the places of the idle ones
    await_until(lambda: sum(conn.ended is not None for conn in idle) >= 29, 5 * SCALE, "idle ones give way")
    last = daemon.connect()
    last.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
    refused = daemon.connect().send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").wait_end(5 * SCALE)
    check_error(refused, 429, "queue_full", "http.connections")
    check_answer(last.wait_end(10 * SCALE), case.letters.text(3))  # the engine was started with no place left
    for conn in waiting:
        conn.close()
    await_until(lambda: daemon.get("/health").status == 200, 5 * SCALE, "their places are given back", 0.02)
    daemon.alive()
