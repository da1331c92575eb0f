# Byte-level BPE: training it and encoding with it. Pieces are written as GGUF has them (tokenizer.ggml.model "gpt2", pre "qwen2").
# Not here: the chat's form (template.jinja).
import heapq
from collections import Counter, defaultdict

import regex

# The words of Qwen 2's tokenizer: https://huggingface.co/Qwen/Qwen2.5-0.5B/blob/main/tokenizer.json, "pre_tokenizer".
WORDS = regex.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
MARKUP = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
SPECIAL = CONTROL + MARKUP
SPLIT = regex.compile("(" + "|".join(regex.escape(one) for one in SPECIAL) + ")")
# Runs of signs that may become pieces; any other sign stays alone, so that a string begins and ends the same wherever it stands.
SIGNS = {'{"', '":', '",', '{}', '"}', '}}', '"}}', '"}}\n', '}}\n', '{}}', '{}}\n', ' "', ' {', ' {"', ' {}}\n', '\n\n', ': ', ' =', ' +', ' -', '."', "(",
         ")",
         ')\n', ':\n', '.\n', '\n', ' ('}


def byte_letters():
    """The visible character of each byte, as GPT-2 wrote them: printable Latin-1 stands for itself, the rest from U+0100 on."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, more = {}, 0
    for byte in range(256):
        if byte in keep:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + more)
            more += 1
    return table


LETTER_OF = byte_letters()
BLANK = LETTER_OF[32]
SIGN_PIECES = {"".join(LETTER_OF[b] for b in sign.encode()) for sign in SIGNS}


def letters(text):
    return "".join(LETTER_OF[byte] for byte in text.encode("utf-8"))


def may_join(left, right):
    """No blank with one letter or sign of a string, no two signs but those of the calls' JSON, and no sign with letters."""
    joined = left + right
    if joined in SIGN_PIECES:
        return True
    if left == BLANK:
        return len(right) >= 2 and right.isalpha() and right.isascii()
    bare = joined.removeprefix(BLANK)
    return bare.isalpha() and bare.isascii()


def train(texts, merge_count):
    """The merges, most frequent first. A blank joins only whole words, counted as such."""
    counts = Counter()
    for text in texts:
        for part in SPLIT.split(text):
            if part not in SPECIAL:
                counts.update(letters(word) for word in WORDS.findall(part))
    words = [list(word) for word in counts]
    amount = list(counts.values())
    pairs, where = Counter(), defaultdict(set)

    def pairs_of(pieces):
        for left, right in zip(pieces, pieces[1:]):
            if left != BLANK or len(pieces) == 2:
                yield left, right

    for at, pieces in enumerate(words):
        for pair in pairs_of(pieces):
            pairs[pair] += amount[at]
            where[pair].add(at)
    merges = []
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    while len(merges) < merge_count and heap:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if not may_join(*pair):
            continue
        merges.append(pair)
        changed = Counter()
        for at in list(where[pair]):
            for one in pairs_of(words[at]):
                changed[one] -= amount[at]
                where[one].discard(at)
            words[at] = join(words[at], pair)
            for one in pairs_of(words[at]):
                changed[one] += amount[at]
                where[one].add(at)
        for one, difference in changed.items():
            if difference:
                pairs[one] += difference
                heapq.heappush(heap, (-pairs[one], one))
    return merges


def join(pieces, pair):
    out, at = [], 0
    while at < len(pieces):
        if at + 1 < len(pieces) and (pieces[at], pieces[at + 1]) == pair:
            out.append(pieces[at] + pieces[at + 1])
            at += 2
        else:
            out.append(pieces[at])
            at += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(merge) for merge in merges]
        self.rank = {merge: at for at, merge in enumerate(self.merges)}
        self.pieces = [LETTER_OF[byte] for byte in range(256)] + [left + right for left, right in self.merges] + SPECIAL
        self.ids = {piece: at for at, piece in enumerate(self.pieces)}
        self.cache = {}

    def __len__(self):
        return len(self.pieces)

    def word(self, text):
        known = self.cache.get(text)
        if known is None:
            pieces = list(letters(text))
            while len(pieces) > 1:
                best = min(zip(pieces, pieces[1:]), key=lambda pair: self.rank.get(pair, 1 << 30))
                if best not in self.rank:
                    break
                pieces = join(pieces, best)
            known = [self.ids[piece] for piece in pieces]
            if len(self.cache) < 200_000:
                self.cache[text] = known
        return known

    def encode(self, text):
        out = []
        for part in SPLIT.split(text):
            if part in SPECIAL:
                out.append(self.ids[part])
            else:
                for word in WORDS.findall(part):
                    out += self.word(word)
        return out

    def decode(self, ids):
        byte_of = {letter: byte for byte, letter in LETTER_OF.items()}
        out = b""
        for one in ids:
            piece = self.pieces[one]
            out += piece.encode() if piece in SPECIAL else bytes(byte_of[letter] for letter in piece)
        return out.decode("utf-8", "replace")
