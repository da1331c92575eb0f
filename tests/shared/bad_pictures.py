#!/usr/bin/env python3
"""The pictures of case E7 as the shared generator writes them, to the real vision child under the real daemon: right ones are seen, the others refused by
part, soon and without taking memory; a text model refuses them all. Usage: bad_pictures.py --bin FOLDER --shared FOLDER."""
import argparse
import base64
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from client import SCALE, check  # noqa: E402
from harness import Case, check_error  # noqa: E402
from hostile_bodies import write_fixtures  # noqa: E402
from test_eyes import eyes_of, peak_kib, projector  # noqa: E402
from test_vision import IMAGE_ID  # noqa: E402

GOOD = {"good.jpg", "good.png", "one_pixel.png", "thin_1x4000.png", "thin_4000x1.png"}
BEFORE_PIXELS = {"bomb_20000x20000.png": "over the limit of 67108864 pixels (vision.image_pixels)", "claims_2g_x_2g.png": "over the limit"}
# A wrong checksum and a JPEG that ends inside its pixels are refused (docs/vision.md).
OTHERS = {"bad_crc.png", "bad_deflate.png", "cut.png", "cut_in_scan.jpg", "header_only.jpg", "is_text.png", "zero_wide.png", "nothing.png"}


def part(data, media):
    return {"type": "image_url", "image_url": {"url": f"data:{media};base64," + base64.b64encode(data).decode()}}


def ask(eyes, data, media, earlier):
    pictured = {"role": "user", "content": [{"type": "text", "text": "see"}, part(data, media)]}
    messages = [pictured, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "and?"}] if earlier else [pictured]
    return eyes.daemon.request("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 8}).wait_end(5 * SCALE)


def seeing(case, pictures, name):
    eyes = eyes_of(case, projector(case, name))
    eyes.daemon.fake.script(jobs=[[["answer", 3, 0]]])
    eyes.answered(ask(eyes, pictures["good.png"], "image/png", False))
    pid, before = eyes.status()["pid"], peak_kib(eyes.status()["pid"])
    for file, data in sorted(pictures.items()):
        for media, earlier in (("image/png", False), ("image/jpeg", True), ("application/pdf", False)):
            conn = ask(eyes, data, media, earlier)
            if file in GOOD:
                eyes.answered(conn)
                continue
            error = check_error(conn, 400, "image_invalid", "messages[0].content[1]", BEFORE_PIXELS.get(file, ""))
            check(error["param"] == "messages[0].content[1]" and conn.took_s < SCALE, "by part and within a second", file, error, conn.took_s)
        print(f"{name} {file}: {conn.status} {'' if file in GOOD else error['message'][:120]}", flush=True)
    check(eyes.status()["pid"] == pid and peak_kib(pid) - before < 64 * 1024, "one child, in its memory", eyes.status(), before, peak_kib(pid))
    check(all(IMAGE_ID in line[2].split(" ")[-1].split(",") for line in eyes.daemon.fake.generations()), "at least one image token each")
    eyes.end()


def text_model(case, pictures):
    daemon = case.daemon()
    for file, data in sorted(pictures.items()):
        body = {"messages": [{"role": "user", "content": [part(data, "image/png")]}]}
        check_error(daemon.request("POST", "/v1/chat/completions", body).wait_end(5 * SCALE), 400, "image_invalid", "messages[0].content[0]", "takes no images")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--shared", required=True)
    args = parser.parse_args()
    case, failed = Case(args.bin), True
    try:
        with tempfile.TemporaryDirectory() as out:
            write_fixtures(args.shared, out)
            pictures = {name[3:]: open(os.path.join(out, name), "rb").read() for name in os.listdir(out) if name.startswith("e7_")}
        check(set(pictures) == GOOD | set(BEFORE_PIXELS) | OTHERS, "pictures, each known to this test", sorted(pictures))
        for name in ("gemma3", "qwen3vl_merger"):
            seeing(case, pictures, name)
        text_model(case, pictures)
        failed = False
    finally:
        case.close(failed)
    print("passed")


main()
