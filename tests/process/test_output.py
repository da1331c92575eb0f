"""What children write: floods, endless and broken lines, odd bytes. Bounded memory, clear errors, no hang (seed S17, S18; case A2)."""
import procs
from client import SCALE, check
from harness import check_answer, check_error
from registry import test


def growth_kib(daemon, action):
    """By how much the daemon's peak memory rose above what it held before; sanitizers' own bookkeeping makes it meaningless there."""
    before = procs.memory_kib(daemon.pid, "VmRSS")
    procs.forget_peak_memory(daemon.pid)
    action()
    return procs.memory_kib(daemon.pid, "VmHWM") - before if SCALE == 1 else 0


@test("stderr_flood_before_ready")
def flood_before_ready(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["stderr_bytes", 8 << 20], ["stderr", ""], ["stderr_lines", 200000]], jobs=[[["answer", 3, 0]], [["stderr", "my last words"], ["die", 11]]])
    grown = growth_kib(daemon, lambda: check_answer(daemon.chat().wait_end(20 * SCALE), case.letters.text(3)))
    check(grown < 32 * 1024, "memory grows by less than 32 MiB", grown)
    check_error(daemon.chat(text="b").wait_end(5 * SCALE), 503, "engine_crashed", "my last words")
    daemon.alive()


@test("stderr_flood_for_ever")
def flood_for_ever(case):
    daemon = case.daemon()
    daemon.fake.script(load=[["stderr_for_ever"]], jobs=[[["answer", 30, 0.05]]])
    grown = growth_kib(daemon, lambda: check_answer(daemon.chat(stream=True).wait_end(30 * SCALE), case.letters.text(30)))
    check(grown < 32 * 1024, "bounded memory", grown)
    check(daemon.get("/health").took_s < SCALE, "health answers meanwhile")
    daemon.alive()


@test("endless_line_on_stdout")
def endless_line(case):
    daemon = case.daemon()
    daemon.fake.script(jobs=[[["tokens", 1, 0.05], ["big", 64 << 20], ["answer", 2, 0]]])
    chats = []
    grown = growth_kib(daemon, lambda: chats.append(daemon.chat(stream=True).wait_end(20 * SCALE)))
    check(grown < 64 + 16 * 1024, "memory stays under the line cap plus 16 MiB", grown)
    check(chats[0].said_done != bool(chats[0].stream_errors), "one ending: the line is dropped or the request fails", chats[0].events)
    daemon.alive()


@test("endless_line_before_ready")
def endless_load_line(case):
    daemon = case.daemon(engine={"ready_s": 8})
    daemon.fake.script(load=[["bytes", "x" * 200000], ["bytes", "\n"]])
    reply = daemon.chat().wait_end(10 * SCALE)
    check(reply.status in (200, 503), "an answer or a clear error", reply.status, bytes(reply.body))
    daemon.alive()


@test("odd_bytes_in_lines")
def odd_bytes(case):
    daemon = case.daemon()
    ids = case.letters.ids
    lines = f"T {ids[0]}\r\n" + f"T {ids[1]}\nT {ids[2]}\n"  # CRLF; two lines in one write
    daemon.fake.script(jobs=[[["bytes", lines], ["bytes", f"T {ids[3]}"], ["sleep", 0.1], ["bytes", "\nDONE 4 5 1 1 stop\r\n"]]])
    check_answer(daemon.chat().wait_end(5 * SCALE), case.letters.text(4), "stop")
    daemon.fake.script(jobs=[[["drip", "ERR broken \U0001f600 engine\n", 0.05]]])
    check_error(daemon.chat(text="b").wait_end(5 * SCALE), 503, "engine_error", "broken \U0001f600 engine")
    daemon.fake.script(jobs=[[["bytes", "ERR before\0after\n"]]])
    check_error(daemon.chat(text="c").wait_end(5 * SCALE), 503, "engine_error", "before", "after")
    daemon.fake.script(jobs=[[["bytes", "ERR bad \xff\xfe bytes\n"]]])
    check_error(daemon.chat(text="d").wait_end(5 * SCALE), 503, "engine_error", "bad ", " bytes")
    check(daemon.fake.starts == 1, "one engine all the time", daemon.fake.log("start"))
    daemon.alive()


@test("lines_that_are_no_protocol")
def garbage(case):
    daemon = case.daemon()
    ids = case.letters.ids
    noise = ["hello", "", "T", "T x", "T 99999999999999999999", "@5", "@5 T 3", "DONE", "DONE x y", "PP 1", "READY 4096 stop", "BEAT step=1", "RESUME -1",
             f"@999999999999999999999999 T {ids[0]}"]
    daemon.fake.script(load=["Welcome to my engine", "", "READYnot"], jobs=[[*[step for line in noise for step in (["bytes", line + "\n"],)],
                                                                           ["bytes", "T \0\n"], ["answer", 3, 0]]])
    chat = daemon.chat(stream=True).wait_end(5 * SCALE)
    check(chat.status in (200, 503), "an ending", chat.status)
    if chat.status == 200:
        check(chat.said_done != bool(chat.stream_errors), "exactly one", chat.events)
    daemon.alive()


@test("token_outside_the_vocabulary")
def outside(case):
    daemon = case.daemon()
    for token in ("999999", "-5", "2147483647"):
        daemon.fake.script(jobs=[[f"T {token}", ["answer", 2, 0]]])
        chat = daemon.chat(text=token).wait_end(5 * SCALE)
        check(chat.status in (200, 503), "an answer or a clear error", chat.status, bytes(chat.body))
    daemon.alive()
