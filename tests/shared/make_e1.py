"""Writes the e1_*.gguf files (model files that lie) of the shared cases. Usage: make_e1.py SHARED_DIR OUT_DIR

The cases' own generator also needs Jinja for its template rows; its source is run only up to there, so this needs nothing but Python.
"""
import os
import sys

shared, out = sys.argv[1], sys.argv[2]
cases = os.path.join(shared, "cases")
sys.path.insert(0, cases)
source = open(os.path.join(cases, "gen_open.py"), encoding="utf-8").read()
end = source.find("\nimport jinja2")
if end < 0:
    sys.exit("gen_open.py no longer imports jinja2 on a line of its own: adapt make_e1.py")
# The picture and body cases behind the model files are not wanted here either.
pictures = source.find("# ---- E7")
sys.argv = ["gen_open.py", out, os.path.join(shared, "models", "stories260K-f32.gguf")]
exec(compile(source[:pictures if 0 < pictures < end else end], "gen_open.py", "exec"))
print(len([name for name in os.listdir(out) if name.startswith("e1_")]))
