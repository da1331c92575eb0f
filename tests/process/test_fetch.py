"""Pictures by address (case E10): what vision.url_allow allows is fetched and seen, nothing else is looked up or dialled, and whatever the other side
does, the request ends by vision.url_s with words that tell nothing of it, while texts are answered. Engine and vision child are fakes."""
import os
import selectors
import signal
import socket
import ssl
import subprocess
import threading

import procs
from client import SCALE, SELECTOR, await_until, check
from harness import check_error
from registry import test
from test_eyes import eyes_of, png, projector
from test_vision import Eyes

NOT_FETCHED = "is a picture that could not be fetched"


def ok(body, *headers):
    return "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]).encode() + b"\r\n\r\n" + body


def to(location, status=302):
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


class Host:
    """A web server on loopback that counts its connections. Each request gets answers[path]: bytes, then the end; a list of bytes, then silence; or a
    function that is called over and over with what may be written to. A path without an answer gets silence."""

    def __init__(self, address="127.0.0.1"):
        self.socket = socket.create_server((address, 0))
        self.port = self.socket.getsockname()[1]
        self.answers, self.requests, self.connections, self.left = {}, [], 0, 0
        self.open = []
        SELECTOR.register(self.socket, selectors.EVENT_READ, self.accept)

    def url(self, path="/cat", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def accept(self):
        conn = self.socket.accept()[0]
        conn.setblocking(False)
        self.connections += 1
        self.open.append(conn)
        head = bytearray()

        def readable():
            try:
                data = conn.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                self.left += 1
                SELECTOR.unregister(conn)
                conn.close()
                return
            head.extend(data)
            if head.endswith(b"\r\n\r\n"):
                self.requests.append(head.decode())
                self.answer(conn, self.answers.get(head.split(b" ")[1].decode(), []))
        SELECTOR.register(conn, selectors.EVENT_READ, readable)

    def answer(self, conn, answer):
        if callable(answer):
            reading = SELECTOR.get_key(conn).data

            def both():
                try:
                    answer(conn)
                except BlockingIOError:
                    pass
                except OSError:
                    SELECTOR.modify(conn, selectors.EVENT_READ, reading)
            SELECTOR.modify(conn, selectors.EVENT_READ | selectors.EVENT_WRITE, both)
            return
        for piece in [answer] if isinstance(answer, bytes) else answer:
            conn.sendall(piece)
        if isinstance(answer, bytes):
            conn.shutdown(socket.SHUT_WR)

    def close(self):
        SELECTOR.unregister(self.socket)
        self.socket.close()


def eyes_for(case, entries, vision=None, **options):
    return Eyes(case, vision={"url_allow": entries, **(vision or {})}, **options)


def part(url):
    return {"type": "image_url", "image_url": {"url": url}}


def ask(eyes, *urls, headers=None, **fields):
    parts = [{"type": "text", "text": "what is it?"}, *[part(url) for url in urls]]
    return eyes.daemon.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "max_tokens": 64, **fields}, headers)


def refused(eyes, url, *words, limit_s=5):
    error = check_error(ask(eyes, url).wait_end(limit_s * SCALE), 400, "image_invalid", "messages[0].content[1]", *words)
    check(error["param"] == "messages[0].content[1]", "the part", error)
    return error["message"]


@test("E10_allowed_pictures_are_fetched")
def allowed(case):
    host, other = Host(), Host()
    eyes = eyes_for(case, [host.url("/in")])
    host.answers = {"/in/cat?size=1": ok(b"cat", "Content-Type: image/png", "Set-Cookie: a=b"), "/in/dog": b"HTTP/1.1 200 OK\r\n\r\n" + b"dog",
                    "/in/far": to("near"), "/in/near": ok(b"x")}
    eyes.answered(ask(eyes, host.url("/in/cat?size=1"), host.url("/in/dog"), host.url("/in/cat?size=1#again")))
    check(eyes.log("picture") == [name.hex() for name in (b"cat", b"dog", b"cat")], "the child has them in order", eyes.log("picture"))
    check(host.connections == 2, "each address was fetched once", host.requests)
    lines = host.requests[0].split("\r\n")
    check(lines[:2] == ["GET /in/cat?size=1 HTTP/1.1", f"Host: 127.0.0.1:{host.port}"] and lines[2].startswith("User-Agent: vigil/"), "the request", lines)
    check(not any(line.lower().startswith(("cookie", "authorization", "referer")) for request in host.requests for line in request.split("\r\n")), "no more", host.requests)
    eyes.answered(ask(eyes, host.url("/in/far")))
    check(eyes.log("picture")[-1] == b"x".hex(), "through a redirect", eyes.log("picture"))
    before = host.connections
    eyes.daemon.fake.script(jobs=[[["answer", 3, 0]]])
    both = ask(eyes, host.url("/in/cat?size=1"), n=2).wait_end(10 * SCALE)
    check(both.status == 200 and len(both.json()["choices"]) == 2 and host.connections == before + 1, "once for two choices", bytes(both.body), host.requests)
    content = [{"type": "image", "source": {"type": "url", "url": host.url("/in/dog")}}]
    message = {"max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    conn = eyes.daemon.request("POST", "/v1/messages", message).wait_end(10 * SCALE)
    check(conn.status == 200 and eyes.log("picture")[-1] == b"dog".hex(), "a block of the messages dialect", bytes(conn.body))
    item = {"role": "user", "content": [{"type": "input_image", "image_url": host.url("/in/near")}]}
    conn = eyes.daemon.request("POST", "/v1/responses", {"input": [item]}).wait_end(10 * SCALE)
    check(conn.status == 200 and eyes.log("picture")[-1] == b"x".hex(), "an item of the responses dialect", bytes(conn.body))
    before = host.connections
    conn = eyes.daemon.request("POST", "/v1/messages/count_tokens", message).wait_end(5 * SCALE)
    check(conn.status == 200 and host.connections == before, "counting fetches nothing", bytes(conn.body))
    for url in (host.url("/out"), host.url("/inside"), other.url("/in"), host.url("/in", "localhost"), host.url("/in", "[::ffff:127.0.0.1]"), "http://169.254.169.254/in"):
        refused(eyes, url, "vision.url_allow")
    for url in (host.url("/in", "2130706433"), host.url("/in", "0x7f.1"), host.url("/in/../out"), host.url("/in", "u@127.0.0.1"), "file:///etc/passwd", "ftp://127.0.0.1/in"):
        refused(eyes, url, "whose address")
    check(host.connections == before and other.connections == 0, "nobody was asked", host.requests)
    eyes.well()
    eyes.end()


@test("E10_fetched_pictures_are_seen_by_real_eyes")
def real_eyes(case):
    host = Host()
    picture = png(64, 32)
    host.answers = {"/good": ok(picture), "/page": ok(b"<html>not found</html>", "Content-Type: image/png")}
    eyes = eyes_of(case, projector(case), vision={"url_allow": [host.url("/")]})
    eyes.answered(eyes.chat(picture))
    eyes.answered(ask(eyes, host.url("/good")))
    inline, fetched = (line[2] for line in eyes.daemon.fake.log("file"))
    check(inline == fetched, "the same embeddings, wherever the bytes came from")
    error = check_error(ask(eyes, host.url("/page")).wait_end(5 * SCALE), 400, "image_invalid", "no picture that is known")
    check(error["param"] == "messages[0].content[1]" and "html" not in error["message"], "the child's words, nothing of the page", error)
    eyes.end()


@test("E10_every_hop_is_checked")
def hops(case):
    host, other, inner = Host(), Host(), Host()
    eyes = eyes_for(case, [host.url("/"), other.url("/in")])
    host.answers = {"/other": to(other.url("/in/cat"), 307), "/inner": to(inner.url("/secret")), "/name": to(inner.url("/", "localhost")), "/outside": to(other.url("/out")),
                    "/file": to("file:///etc/passwd"), "/number": to(inner.url("/", "2130706433")), "/metadata": to("http://169.254.169.254/latest/meta-data/"),
                    "/round": to("/round"), "/nowhere": to("")}
    other.answers = {"/in/cat": ok(b"cat")}
    eyes.answered(ask(eyes, host.url("/other")))
    check(eyes.log("picture") == [b"cat".hex()], "a redirect to what is allowed", eyes.log("picture"))
    told = set()
    for path in ("/inner", "/name", "/outside", "/file", "/number", "/metadata", "/round", "/nowhere"):
        told.add(refused(eyes, host.url(path), NOT_FETCHED))
    check(len(told) == 1 and str(inner.port) not in told.pop(), "always the same words", told)
    check(inner.connections == 0 and other.connections == 1, "nobody else was asked", inner.requests, other.requests)
    check(len([request for request in host.requests if request.startswith("GET /round")]) == 4, "vision.url_redirects", host.requests)
    check("vision.url_redirects" in eyes.daemon.stderr() and "secret" not in eyes.daemon.stderr(), "the log says why, without paths")
    eyes.well()
    eyes.end()


def inner_name():
    """A name that leads to this machine or its network, and is not localhost itself."""
    for name in ("localhost.localdomain", "ip6-localhost", socket.gethostname().lower()):
        try:
            if socket.getaddrinfo(name, 80):
                return name
        except OSError:
            pass
    return None


@test("E10_names_that_lead_inside_are_not_dialled")
def names(case):
    host, name = Host("0.0.0.0"), inner_name()
    host.answers = {"/cat": ok(b"cat")}
    eyes = eyes_for(case, [host.url("/", "localhost"), *([host.url("/", name)] if name else [])])
    eyes.answered(ask(eyes, host.url("/cat", "localhost")))
    check(host.connections == 1 and f"Host: localhost:{host.port}" in host.requests[0], "the operator named this machine", host.requests)
    if name:
        refused(eyes, host.url("/cat", name), NOT_FETCHED)
        check(host.connections == 1 and "not public" in eyes.daemon.stderr(), "refused after the look-up", name, eyes.daemon.stderr())
    eyes.well()
    eyes.end()


@test("E10_bad_hosts_end_in_time_and_tell_nothing", 90)
def bad_hosts(case):
    host, closed = Host(), Host()
    closed.close()
    eyes = eyes_for(case, [host.url("/"), closed.url("/")], vision={"url_s": 1, "image_bytes": 1000000})
    head = b"HTTP/1.1 200 OK\r\n"
    host.answers = {
        "/silent": [], "/half": [head], "/cut": head + b"Content-Length: 900\r\n\r\ncat", "/stuck": [head + b"Content-Length: 900\r\n\r\ncat"],
        "/endless_head": lambda conn: conn.send(b"X: y\r\n" * 100), "/endless": lambda conn: conn.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"\0" * 60000),
        "/claims": [head + b"Content-Length: 1000001\r\n\r\n"], "/empty": ok(b""), "/packed": ok(b"cat", "Content-Encoding: gzip"), "/missing": b"HTTP/1.1 404 No\r\n\r\nsecret words",
        "/error": b"HTTP/1.1 500 secret words\r\n\r\n", "/no_http": b"220 secret words\r\n", "/chunks": [head + b"Transfer-Encoding: chunked\r\n\r\n3\r\ncat\r\n"],
    }
    eyes.answered(ask(eyes, "data:;base64,Zg=="))
    usual = len(procs.descriptors(eyes.daemon.pid))
    conns = {path: ask(eyes, host.url(path)) for path in host.answers}
    conns["closed"] = ask(eyes, closed.url("/"))
    await_until(lambda: host.connections >= 5, 5 * SCALE, "they are asked")
    eyes.answered(eyes.daemon.chat())
    told = set()
    for path, conn in conns.items():
        error = check_error(conn.wait_end(1 + 5 * SCALE), 400, "image_invalid", NOT_FETCHED, "vision.url_s", "vision.image_bytes")
        told.add(error["message"])
    check(len(told) == 1 and "secret" not in str(told) and str(host.port) not in str(told), "one and the same text", told)
    check(len(eyes.encs()) == 1, "the child saw none of them", eyes.encs())
    for conn in eyes.daemon.conns:
        conn.close()
    await_until(lambda: host.left == host.connections, 5 * SCALE, lambda: f"all connections are closed: {host.left} of {host.connections}")
    await_until(lambda: len(procs.descriptors(eyes.daemon.pid)) <= usual, 5 * SCALE, lambda: f"descriptors back: {procs.descriptors(eyes.daemon.pid)}")
    check(not eyes.daemon.fake.log("read", "GENI")[1:], "nor the engine", eyes.daemon.fake.log("read"))
    eyes.well()
    eyes.end()


@test("E10_a_slow_drip_ends_with_the_limit")
def drip(case):
    host = Host()
    eyes = eyes_for(case, [host.url("/")], vision={"url_s": 1})
    sent = []
    host.answers = {"/drip": [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"]}
    conn = ask(eyes, host.url("/drip"))

    def one_more():
        for one in host.open:
            if host.requests and one.fileno() >= 0:
                try:
                    sent.append(one.send(b"x"))
                except OSError:
                    pass
        return conn.complete
    await_until(one_more, 1 + 5 * SCALE, "it ends though bytes come", 0.05)
    check_error(conn, 400, "image_invalid", NOT_FETCHED)
    check(len(sent) > 3, "bytes came", len(sent))
    eyes.well()
    eyes.end()


@test("fetches_hold_up_nobody_and_end_with_their_request")
def leaving(case):
    host = Host()
    host.answers = {"/cat": ok(b"cat")}
    eyes = eyes_for(case, [host.url("/")], vision={"url_fetches": 1, "url_s": 60})
    first = ask(eyes, host.url("/silent"), stream=True)
    await_until(lambda: len(host.requests) == 1, 5 * SCALE, "it is being fetched")
    second = ask(eyes, host.url("/cat"))
    eyes.answered(eyes.daemon.chat())
    eyes.answered(eyes.chat(b"dog"))
    status = eyes.daemon.status()
    check([item["phase"] for item in status["active"]] == ["encoding", "encoding"] and status["requests"]["running"] == 0, "both wait, nothing runs", status)
    check(host.connections == 1, "one at once", host.requests)
    first.close()
    await_until(lambda: host.left >= 1, 5 * SCALE, "the fetch is over with its client")
    eyes.answered(second)
    third = ask(eyes, host.url("/silent"), headers={"X-Request-Id": "to-cancel"})
    await_until(lambda: len(host.requests) == 3, 5 * SCALE, "the third is being fetched")
    check(eyes.daemon.request("DELETE", "/v1/requests/to-cancel").wait_end(5 * SCALE).status == 200, "cancelled by the API")
    check(third.wait_end(5 * SCALE).status == 499, "told so", third.status)
    await_until(lambda: host.left == 3, 5 * SCALE, "its fetch is over too")
    plain, stream = ask(eyes, host.url("/silent")), ask(eyes, host.url("/silent"), stream=True)
    await_until(lambda: len(host.requests) == 4, 5 * SCALE, "one more")
    eyes.daemon.signal(signal.SIGTERM)
    for conn in (plain, stream):
        check_error(conn.wait_end(5 * SCALE), 503, "shutting_down")
    check(eyes.daemon.await_exit(3 + SCALE) == 0, "exit status", eyes.daemon.stderr())
    await_until(lambda: host.left == 4, 5 * SCALE, "nothing is left open")
    check(not os.listdir(eyes.place), "the folder is gone", os.listdir(eyes.place))


@test("url_allow_takes_a_reload")
def reload(case):
    host = Host()
    host.answers = {"/cat": ok(b"cat")}
    eyes = Eyes(case)
    check_error(ask(eyes, host.url("/cat")).wait_end(5 * SCALE), 400, "image_invalid", "not fetched")
    eyes.daemon.config["vision"]["url_allow"] = [host.url("/")]
    eyes.daemon.write_config()
    eyes.daemon.signal(signal.SIGHUP)
    await_until(lambda: "reload: vision.url_allow" in eyes.daemon.stderr(), 5 * SCALE, lambda: eyes.daemon.stderr()[-500:])
    eyes.answered(ask(eyes, host.url("/cat")))
    eyes.daemon.config["vision"]["url_allow"] = ["https://*.example"]
    eyes.daemon.write_config()
    eyes.daemon.signal(signal.SIGHUP)
    await_until(lambda: "nothing was changed" in eyes.daemon.stderr(), 5 * SCALE, lambda: eyes.daemon.stderr()[-500:])
    eyes.answered(ask(eyes, host.url("/cat")))
    eyes.well()
    eyes.end()


class SafeHost:
    """An https server in a thread of its own: handshakes block. Answers every request with the bytes of its path."""

    def __init__(self, case, names):
        self.certificate, key = (os.path.join(case.folder, f"{names[0]}.{ending}") for ending in ("crt", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", self.certificate, "-days", "2",
                        "-subj", "/CN=vigil-test", "-addext", "subjectAltName=" + ",".join(names).replace("=", ":")], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.answers, self.names, self.requests = {}, [], 0
        self.context.sni_callback = lambda conn, name, context: self.names.append(name)
        threading.Thread(target=self.serve, daemon=True).start()

    def url(self, path="/cat", host="127.0.0.1"):
        return f"https://{host}:{self.port}{path}"

    def serve(self):
        while True:
            try:
                raw = self.socket.accept()[0]
            except OSError:
                return
            raw.settimeout(10)
            try:
                conn = self.context.wrap_socket(raw, server_side=True, suppress_ragged_eofs=False)
                path = conn.recv(65536).split(b" ")[1].decode()
                self.requests += 1
                answer, farewell = self.answers[path]
                conn.sendall(answer)
                if farewell:
                    conn.unwrap()
                conn.close()
            except (OSError, IndexError):  # a client that does not like the certificate goes without a word
                raw.close()


@test("E10_certificates_are_verified")
def certificates(case):
    good, wrong_name = SafeHost(case, ["IP=127.0.0.1", "DNS=localhost"]), SafeHost(case, ["DNS=other.example"])
    plain = Host()
    plain.answers = {"/cat": ok(b"cat")}
    for host in (good, wrong_name):
        host.answers = {"/cat": (ok(b"cat"), True), "/whole": (b"HTTP/1.1 200 OK\r\n\r\ncat", True), "/cut": (b"HTTP/1.1 200 OK\r\n\r\ncat", False),
                        "/down": (to(plain.url("/cat")), True)}
    entries = [good.url("/"), good.url("/", "localhost"), wrong_name.url("/"), wrong_name.url("/", "localhost"), plain.url("/")]
    trusted = os.path.join(case.folder, "trusted.crt")
    with open(trusted, "wb") as file:
        for host in (good, wrong_name):
            with open(host.certificate, "rb") as one:
                file.write(one.read())
    eyes = eyes_for(case, entries, env={"SSL_CERT_FILE": trusted, "http_proxy": plain.url("/"), "https_proxy": plain.url("/")})
    for number, url in enumerate([good.url("/cat"), good.url("/cat", "localhost"), good.url("/whole")]):
        eyes.answered(ask(eyes, url))
        check(eyes.log("picture") == [b"cat".hex()] * (number + 1), "it came", url, eyes.log("picture"))
    check(good.names == [None, "localhost", None], "names, and no addresses, are told to the server", good.names)
    asked = good.requests
    for url in (wrong_name.url("/cat"), wrong_name.url("/cat", "localhost"), good.url("/cut"), good.url("/down"), f"https://127.0.0.1:{plain.port}/"):
        refused(eyes, url, NOT_FETCHED if "cat" in url or "cut" in url or "down" in url else "vision.url_allow")
    check(wrong_name.requests == 0 and good.requests == asked + 2 and plain.connections == 0, "nothing was asked of a wrong one, nor without TLS", wrong_name.requests)
    eyes.well()
    eyes.end()
    stranger = eyes_for(case, entries, place="other pictures")
    refused(stranger, good.url("/cat"), NOT_FETCHED)
    check("certificate" in stranger.daemon.stderr() and good.requests == asked + 2, "self-signed by a stranger", stranger.daemon.stderr())
    stranger.end()
