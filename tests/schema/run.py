#!/usr/bin/env python3
"""Holds the grammars of schemas against python3-jsonschema: every text that the masks let through validates, every valid sample is let through.

run.py --walk PROGRAM [--schemas N] [--seed S] [--show]     N random schemas, and the corpus beside this file
"""
import argparse
import collections
import datetime
import json
import os
import random
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:  # Debian's package belongs to Debian's python
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        sys.exit("run.py needs python3-jsonschema: tools/setup --test")
    os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)

from random_schemas import Filler, Maker, NoValue, texts_of

if hasattr(sys, "set_int_max_str_digits"):  # multiples may be long
    sys.set_int_max_str_digits(0)
HERE = os.path.dirname(os.path.abspath(__file__))
# What random schemas may be refused for: they are made without looking.
EXPECTED_REFUSALS = ("no JSON value satisfies", "cannot be enforced", "refers to itself", "need more than")


class Walker:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, task):
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the walker died of: " + json.dumps(task))
        return json.loads(line)


def make_format_checker():
    checker = jsonschema.FormatChecker(formats=("date", "ipv4", "ipv6", "uuid", "email"))
    # The library's own check of times is that of draft 3.
    checker.checks("time", raises=ValueError)(lambda text: not isinstance(text, str) or (datetime.time.fromisoformat(text) is not None and text[2] == ":" and len(text) > 8))
    checker.checks("date-time", raises=ValueError)(lambda text: not isinstance(text, str) or (datetime.datetime.fromisoformat(text).tzinfo is not None and text[10] == "T"))
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    checker.checks("hostname")(lambda text: not isinstance(text, str) or re.fullmatch(label + r"(\." + label + ")*", text) is not None)
    checker.checks("uri")(lambda text: not isinstance(text, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S*", text) is not None)
    return checker


def whole(value):
    """The value with whole numbers written as such: grammars of integers know no 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(one) for one in value]
    return {name: whole(one) for name, one in value.items()} if isinstance(value, dict) else value


FORMATS = make_format_checker()


def validator(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def in_written_order(check, properties, instance, schema):
    """`properties` as the grammar has it: the listed names in the schema's order, further ones behind them."""
    yield from jsonschema.Draft202012Validator.VALIDATORS["properties"](check, properties, instance, schema)
    if not isinstance(instance, dict):
        return
    listed = [name for name in instance if name in properties]
    if listed != [name for name in properties if name in instance]:
        yield jsonschema.ValidationError("names in another order than the schema's")
    if "additionalProperties" in schema and list(instance)[:len(listed)] != listed:
        yield jsonschema.ValidationError("further names before listed ones")


ORDERED = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"properties": in_written_order})


def closed(schema, part_of_all=False):
    """The schema as the grammar reads it: where names are listed, or patterns of names, and nothing is said about others, there are no others."""
    if isinstance(schema, list):
        return [closed(one, part_of_all) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "$defs"):
            out[key] = {name: closed(one) for name, one in value.items()}
        elif key in ("items", "additionalProperties", "prefixItems", "anyOf", "oneOf"):
            out[key] = closed(value)
        else:
            out[key] = closed(value, True) if key == "allOf" else value
    if ("properties" in out or "patternProperties" in out) and not part_of_all and not any(key in out for key in ("additionalProperties", "allOf")):
        out["additionalProperties"] = False
    return out


class Count:
    def __init__(self):
        self.of = collections.Counter()
        self.failures = []

    def fail(self, what, schema, text):
        self.failures.append("%s\n  schema: %s\n  text:   %s" % (what, json.dumps(schema, ensure_ascii=False), text))


def check(walker, schema, samples, count, seed, walks=5, strict=True, refusals=(), validate=True):
    answer = walker.ask({"schema": schema, "strict": strict, "samples": samples, "walks": walks, "seed": seed})
    if "error" in answer:
        count.of["refused"] += 1
        if not any(one in answer["error"] for one in refusals):
            count.fail("refused: " + answer["error"], schema, "")
        return answer
    count.of["schemas"] += 1
    count.of["unfinished"] += answer["unfinished"]
    judge = validator(schema)
    for text in answer["outputs"] if validate else []:
        count.of["outputs"] += 1
        try:
            errors = list(judge.iter_errors(json.loads(text)))
        except ValueError as error:
            errors = [error]
        except RecursionError:  # a reference that comes back to itself in one place: the validator has no end there, a grammar has
            count.of["not judged"] += 1
            continue
        if errors:
            count.fail("let through, but invalid: %s" % str(getattr(errors[0], "message", errors[0]))[:200], schema, text)
    for text, accepted in zip(samples, answer["accepted"]):
        count.of["samples"] += 1
        if not accepted:
            count.fail("valid, but not let through", schema, text)
    return answer


def random_round(walker, schemas, seed, count):
    for number in range(schemas):
        dice = random.Random(seed * 1_000_003 + number)
        schema = Maker(dice).schema()
        if isinstance(schema, bool):
            schema = {}
        # A value made for one option of anyOf may by luck be one of another option, in whose order it is not.
        judge = ORDERED(closed(schema), format_checker=FORMATS)
        filler = Filler(dice, schema)
        samples = []
        for _ in range(6):
            try:
                value = filler.value(schema)
                if judge.is_valid(value):
                    samples.append(texts_of(whole(value), dice))
            except (NoValue, RecursionError):
                pass
        check(walker, schema, samples, count, number, refusals=EXPECTED_REFUSALS)


def corpus_round(walker, count):
    with open(os.path.join(HERE, "corpus.json"), encoding="utf-8") as file:
        rows = json.load(file)
    for row in rows:
        schema = row["schema"]
        if "error" in row:
            answer = walker.ask({"schema": schema, "strict": row.get("strict", True)})
            count.of["corpus refusals"] += 1
            if row["error"] not in answer.get("error", ""):
                count.fail("expected the error '%s', got %s" % (row["error"], json.dumps(answer)[:300]), schema, "")
            continue
        texts = [sample if row.get("text") else json.dumps(sample, ensure_ascii=False) for sample in row.get("valid", [])]
        check(walker, schema, texts, count, 7, walks=30, strict=row.get("strict", True), validate=row.get("validate", True))
        bad = [sample if row.get("text") else json.dumps(sample, ensure_ascii=False) for sample in row.get("invalid", [])]
        answer = walker.ask({"schema": schema, "strict": row.get("strict", True), "samples": bad})
        for text, accepted in zip(bad, answer.get("accepted", [])):
            count.of["invalid samples"] += 1
            if accepted:
                count.fail("invalid, but let through", schema, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--walk", required=True)
    parser.add_argument("--schemas", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    walker = Walker(options.walk)
    count = Count()
    corpus_round(walker, count)
    random_round(walker, options.schemas, options.seed, count)
    print(", ".join("%d %s" % (number, name) for name, number in sorted(count.of.items())))
    for failure in count.failures[:options.show]:
        print(failure)
    # A check that checked little is no check.
    enough = options.schemas < 500 or (count.of["outputs"] > 3 * options.schemas and count.of["samples"] > 3 * options.schemas and
                                       count.of["refused"] < options.schemas // 10 and count.of["unfinished"] < count.of["outputs"] // 20 and count.of["not judged"] < count.of["outputs"] // 100)
    if not enough:
        print("too few schemas, outputs or samples were checked")
    print("%d failures" % len(count.failures))
    sys.exit(1 if count.failures or not enough else 0)


if __name__ == "__main__":
    main()
