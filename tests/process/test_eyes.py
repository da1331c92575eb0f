"""The real vision child under the real daemon: pictures of every format reach the engine as records, bad ones are refused by part (case E7), and
whatever becomes of the child, text requests go on (seed S6, S7). The engine is a fake; the projector has random weights."""
import os
import signal
import struct
import subprocess
import time
import zlib

from client import SCALE, await_until, check
from harness import MODEL, check_answer, check_error
from registry import test
from test_vision import IMAGE_ID, Eyes
from vocabulary import Metadata


def chunk(tag, body):
    return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))


def png(width, height, paint=lambda x, y: (10 * x % 256, 20 * y % 256, 90), claim=None):
    """An RGB picture; `claim` is what its header says instead."""
    rows = b"".join(b"\0" + bytes(value for x in range(width) for value in paint(x, y)) for y in range(height))
    size = claim or (width, height)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def bmp(width, height):
    row = bytes(3 * width) + bytes(-3 * width % 4)
    return b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + height * len(row), 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + height * row


def text_width():
    values = Metadata(MODEL).values
    return values[values["general.architecture"] + ".embedding_length"]


def projector(case, name="gemma3", **numbers):
    path = os.path.join(case.folder, f"projector-{name}.gguf")
    words = [word for key, value in {"text-width": text_width(), **numbers}.items() for word in (f"--{key}", str(value))]
    subprocess.run([os.path.join(case.bin, "make_projector"), path, "--projector", name, *words], check=True)
    return path


def eyes_of(case, path, vision=None, **options):
    return Eyes(case, exe=None, vision={"exe": "vigil-vision", "mmproj": path, **(vision or {})}, **options)


def peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


@test("real_eyes_give_the_engine_records")
def records(case):
    width = text_width()
    for name, rows, grid in [("gemma3", 4, (2, 2)), ("mlp", 16, (4, 4)), ("qwen2.5vl_merger", 8, (4, 2)), ("qwen3vl_merger", 8, (4, 2))]:
        eyes = eyes_of(case, projector(case, name))
        eyes.answered(eyes.chat(png(64, 32), bmp(64, 32)))
        line = eyes.daemon.fake.generations()[0][2]
        check(line.split(" ")[-1].split(",").count(IMAGE_ID) == 2 * rows, "a token for each row", name, line)
        file = bytes.fromhex(eyes.daemon.fake.log("file")[0][2])
        record = 20 + 4 * rows * width
        check(len(file) == 2 * record, "two records", name, len(file))
        for at in (0, record):
            check(file[at:at + 4] == b"SVE1" and struct.unpack_from("<4i", file, at + 4) == (rows, *grid, width), "its header", name, file[at:at + 20])
        check(file[20:record] != file[record + 20:], "of different pictures", name)
        check(eyes.status()["state"] == "ready" and eyes.status()["generation"] == 1, "the status", eyes.status())
        eyes.end()


@test("E7_real_eyes_refuse_bad_pictures", 90)
def bad_pictures(case):
    eyes = eyes_of(case, projector(case))
    good = png(20, 30)
    eyes.answered(eyes.chat(good))
    pid = eyes.status()["pid"]
    before = peak_kib(pid)
    for picture in (png(1, 1), png(1, 4000), png(4000, 1), bmp(3, 5)):
        eyes.answered(eyes.chat(picture))
    wrong = [(b"this is not a picture", "no picture that is known"), (good[:len(good) // 2], "PNG"), (good.replace(b"IDAT", b"IDAT\0"), "PNG"),
             (png(2, 2, claim=(20000, 20000)), "20000 x 20000 pixels large, over the limit of 67108864 pixels (vision.image_pixels)"),
             (png(2, 2, claim=(2 ** 31 - 1, 2 ** 31 - 1)), "over the limit"), (png(2, 2, claim=(8000, 8000)), "PNG"), (png(2, 2, claim=(0, 16)), "PNG"),
             (b"\xff\xd8\xff\xe0 and no more", "JPEG"), (b"GIF89a", "GIF"), (b"RIFF\x04\0\0\0WEBP", "WebP"), (b"BM" + bytes(60), "BMP")]
    for picture, words in wrong:
        conn = eyes.chat(good, picture).wait_end(3 * SCALE)
        error = check_error(conn, 400, "image_invalid", "messages[0].content[2]", words)
        check(error["param"] == "messages[0].content[2]" and conn.took_s < SCALE, "by part and soon", error, conn.took_s)
    check(eyes.status()["pid"] == pid, "the child lives on", eyes.status())
    check(peak_kib(pid) - before < 64 * 1024, "its memory", before, peak_kib(pid))
    eyes.daemon.fake.script(jobs=[[["answer", 3, 0]]])
    eyes.answered(eyes.chat(good))
    eyes.end()


@test("image_pixels_is_the_real_childs_limit")
def pixels(case):
    eyes = eyes_of(case, projector(case), vision={"image_pixels": 600})
    eyes.answered(eyes.chat(png(20, 30)))
    check_error(eyes.chat(png(20, 31)).wait_end(3 * SCALE), 400, "image_invalid", "limit of 600 pixels", "vision.image_pixels")
    eyes.end()


@test("S7_real_eyes_that_freeze_or_die_never_delay_text")
def freeze(case):
    # Work for seconds: many patches and layers.
    path = projector(case, "gemma3", image=384, patch=8, width=256, ff=1024, heads=4, layers=24, merge=4)
    eyes = eyes_of(case, path, vision={"encode_s": 3, "stop_s": 1}, engine={"start": "eager"})
    eyes.await_state("ready", 10)
    pid = eyes.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    frozen = eyes.chat(png(20, 30))
    await_until(lambda: eyes.daemon.status()["active"], 2 * SCALE, "it is being encoded")
    slowest = 0
    for i in range(20):
        text = eyes.daemon.chat(stream=i % 2 == 0, text=f"{i}").wait_end(2 * SCALE)
        check_answer(text, case.letters.text(3))
        slowest = max(slowest, text.took_s)
    check(slowest < 0.5 * SCALE, "text at once", slowest)
    check_error(frozen.wait_end(3 + 3 * SCALE), 503, "vision_unavailable", "vision.encode_s")
    await_until(lambda: pid not in eyes.children(), 3 * SCALE, "the frozen one is gone", 0.02)
    dying = eyes.chat(png(21, 30), stream=True)
    await_until(lambda: eyes.status()["state"] == "ready" and eyes.daemon.status()["active"], 10 * SCALE, "the next one has it")
    os.kill(eyes.status()["pid"], signal.SIGKILL)
    check_error(dying.wait_end(5 * SCALE), 503, "vision_unavailable", "SIGKILL")
    check_answer(eyes.daemon.chat().wait_end(2 * SCALE), case.letters.text(3))
    eyes.daemon.stop()


@test("a_projector_that_does_not_fit_is_told")
def misfit(case):
    eyes = eyes_of(case, projector(case, **{"text-width": text_width() + 32}))
    check_error(eyes.chat(png(4, 4)).wait_end(5 * SCALE), 503, "vision_unavailable", "they do not belong together", str(text_width()))
    check_answer(eyes.daemon.chat().wait_end(2 * SCALE), case.letters.text(3))
    check("do not belong together" in eyes.await_state("failed")["reason"], "the status says why", eyes.status())
    eyes.daemon.stop()
    broken = os.path.join(case.folder, "broken.gguf")
    with open(broken, "wb") as file:
        file.write(b"GGUF\x03\0\0\0")
    eyes = eyes_of(case, broken)
    check_error(eyes.chat(png(4, 4)).wait_end(5 * SCALE), 503, "vision_unavailable", "broken.gguf")
    check_answer(eyes.daemon.chat().wait_end(2 * SCALE), case.letters.text(3))
    eyes.daemon.stop()


@test("real_eyes_stop_and_go_with_the_daemon")
def stop(case):
    path = projector(case, "gemma3", image=384, patch=8, width=256, ff=1024, heads=4, layers=24, merge=4)
    eyes = eyes_of(case, path, engine={"start": "eager"})
    eyes.await_state("ready", 10)
    conn = eyes.chat(png(20, 30))
    await_until(lambda: eyes.daemon.status()["active"], 2 * SCALE, "it is being encoded")
    started = time.monotonic()
    eyes.daemon.signal(signal.SIGTERM)
    check_error(conn.wait_end(SCALE), 503, "shutting_down")
    check(eyes.daemon.await_exit(4 * SCALE) == 0, "exit status")
    check(time.monotonic() - started < 4 * SCALE, "soon")
    await_until(lambda: not eyes.daemon.everything(), 2, f"nothing is left: {eyes.daemon.everything()}", 0.02)


@test("a_picture_changes_the_real_engines_answer_and_is_cached_by_content", 120)
def real_engine(case):
    eyes = eyes_of(case, projector(case), engine={"exe": "vigil-engine"}, vision={"cache_bytes": 0})

    def ask(*pictures, **fields):
        conn = eyes.chat(*pictures, temperature=0, max_tokens=12, **fields).wait_end(30 * SCALE)
        check(conn.status == 200, "answered", conn.status, bytes(conn.body))
        body = conn.json()
        return body["choices"][0]["message"]["content"], body["usage"]["prompt_tokens"], body["usage"]["prompt_tokens_details"]["cached_tokens"]
    dark, bright = png(20, 30, lambda x, y: (x, y, 10)), png(20, 30, lambda x, y: (250 - x, 250 - y, 5 * x))
    said, prompt, cached = ask(dark)
    again, _, cached_again = ask(dark)
    check(again == said and cached_again == prompt - 1, "the same again, from the cache", said, again, cached_again, prompt)
    other, other_prompt, cached_other = ask(bright)
    check(other_prompt == prompt and cached_other < prompt - 4, "another picture is not taken for it", prompt, cached_other)
    check(other != said, "and is answered otherwise", said, other)
    both, both_prompt, _ = ask(bright, dark)
    check(both_prompt > prompt and both not in (said, other), "both", both)
    text = eyes.daemon.chat(max_tokens=4).wait_end(10 * SCALE)
    check(text.status == 200, "text too", text.status)
    eyes.daemon.stop()
