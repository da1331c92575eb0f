#!/usr/bin/env python3
"""Llama 3's tokenizer against its rows: its vocabulary is not among the shared data, so it is made here from an npm package.

llama3.py --shared FOLDER --packages FOLDER_WITH_node_modules --test test_shared
"""
import argparse
import os
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser()
    for name in ("--shared", "--packages", "--test"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    source = os.path.join(options.packages, "node_modules", "@lenml", "tokenizer-llama3", "models", "tokenizer.json")
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = os.path.join(folder, "llama3.gguf")
        subprocess.run([sys.executable, os.path.join(options.shared, "tokenizers", "make_vocab_gguf.py"), source, vocabulary, "--arch", "llama", "--pre", "llama-bpe",
                        "--bos", "<|begin_of_text|>", "--eos", "<|eot_id|>", "--add-bos"], check=True)
        return subprocess.run([options.test, "[.llama3]"], env={**os.environ, "VIGIL_LLAMA3_GGUF": vocabulary}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
