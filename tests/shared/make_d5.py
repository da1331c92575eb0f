"""Prints the rows of d5_templates.jsonl of the shared cases (templates and the text that Jinja2 gives for them). Usage: make_d5.py SHARED_DIR

Needs jinja2 for Python (tools/setup --test installs it): the expected texts come from it, here and now.
"""
import contextlib
import io
import json
import os
import sys
import tempfile

try:
    import jinja2  # noqa: F401
except ImportError:  # Debian's package belongs to Debian's python
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        sys.exit("make_d5.py needs python3-jinja2: tools/setup --test")
    os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)

cases = os.path.join(sys.argv[1], "cases")
sys.path.insert(0, cases)
source = open(os.path.join(cases, "gen_open.py"), encoding="utf-8").read()
begin, end = source.find("# ---- D5"), source.find("\nprint(sum(")
if begin < 0 or end < begin:
    sys.exit("gen_open.py no longer has its D5 part between '# ---- D5' and the last print: adapt make_d5.py")
with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
    scope = {"os": os, "json": json, "P": lambda name: os.path.join(out, name)}
    exec(compile(source[begin:end], "gen_open.py", "exec"), scope)
    rows = open(os.path.join(out, "d5_templates.jsonl"), encoding="utf-8").read()
sys.stdout.write(rows)
