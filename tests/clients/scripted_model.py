#!/usr/bin/env python3
"""An engine child that plays a model: it reads the prompt as text and says what the first rule of FAKE_DIR/rules.json says whose pattern
is found in it. The vocabulary is that of the model file FAKE_MODEL; answers are written byte by byte. It knows EMB too.

rules.json: a list of {"if": pattern, "unless": pattern or absent, "say": text}; {1} in the text is the pattern's first group.
Every prompt goes to FAKE_DIR/prompts, one JSON string a line, and every answer to FAKE_DIR/answers."""
import base64
import json
import os
import re
import struct
import sys

sys.path.insert(0, os.environ["FAKE_TESTS"])
sys.dont_write_bytecode = True

from vocabulary import Letters, Metadata  # noqa: E402

FOLDER = os.environ["FAKE_DIR"]


def note(name, text):
    with open(os.path.join(FOLDER, name), "a", encoding="utf-8") as file:
        file.write(json.dumps(text) + "\n")


class Text:
    """Ids to bytes and back, for vocabularies with byte tokens."""

    def __init__(self, path):
        self.tokens = Metadata(path).values["tokenizer.ggml.tokens"]
        self.byte_ids = Letters(path).byte_ids
        self.bytes_of = {i: bytes([byte]) for byte, i in self.byte_ids.items()}

    def read(self, ids):
        parts = [self.bytes_of.get(i) or self.tokens[i].replace("\u2581", " ").encode("utf-8", "surrogateescape") for i in ids]
        return b"".join(parts).decode("utf-8", "replace")

    def write(self, text):
        return [self.byte_ids[byte] for byte in text.encode("utf-8")]


def answer(prompt):
    with open(os.path.join(FOLDER, "rules.json"), encoding="utf-8") as file:
        rules = json.load(file)
    for rule in rules:
        found = re.search(rule["if"], prompt, re.DOTALL)
        if found and not ("unless" in rule and re.search(rule["unless"], prompt, re.DOTALL)):
            return rule["say"].replace("{1}", found.group(1) if found.groups() else "")
    return "No rule fits."


def say(tag, lines):
    sys.stdout.write("".join(f"@{tag} {line}\n" for line in lines))
    sys.stdout.flush()


def generate(text, words, tag):
    ids = [int(i) for i in words[-1].split(",")]
    most = int(words[1])
    prompt = text.read(ids)
    note("prompts", prompt)
    said = answer(prompt)
    note("answers", said)
    out = text.write(said)
    finish = "stop" if len(out) < most else "length"
    out = out[:most]
    say(tag, [f"RESUME {len(ids) // 2}"] + [f"T {i}" for i in out] + [f"DONE {len(out)} {len(ids)} 1 1 {finish}"])


def embed(words, tag):
    ids = [int(i) for i in words[-1].split(",")]
    values = [float(len(ids)), float(ids[0] % 7 + 1), -1.0]
    numbers = base64.b64encode(struct.pack("<3f", *values)).decode()
    say(tag, [f"V 0 {numbers}", f"DONE 0 {len(ids)} 1 1 stop"])


def main():
    text = Text(os.environ["FAKE_MODEL"])
    print("READY 1000000 stop ids slots=4 grammar embeddings", flush=True)
    for raw in sys.stdin.buffer:
        words = raw.decode().split()
        tag = next((word[4:] for word in words if word.startswith("req=")), "0")
        if words[0] == "GEN":
            generate(text, words, tag)
        elif words[0] == "EMB":
            embed(words, tag)
        elif words[0] == "QUIT":
            return


main()
