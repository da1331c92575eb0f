# Chats as ids in batches, which tokens the model is to learn, and the pictures. Not here: what chats hold.
import random

import torch

import chats
import vision_model

POOL = 120    # chats to choose neighbours by length from
USUAL = 256   # tokens of a chat; chats for longer sequences have longer system texts


class Marks:
    def __init__(self, tokenizer):
        self.start, self.end = tokenizer.ids["<|im_start|>"], tokenizer.ids["<|im_end|>"]
        self.think = tokenizer.ids["<think>"]
        self.assistant = tokenizer.encode("assistant\n")
        self.user = tokenizer.encode("user\n")
        self.picture = tokenizer.ids["<|image_pad|>"]


def learned(ids, marks, thinking):
    """Per id whether it is the model's own to write: answers with their end. With thinking only what follows the last question, since earlier
    answers stand there without their thinking; and not <think> itself, which the prompt ends with."""
    flags = [False] * len(ids)
    at, last_user = 0, 0
    spans = []
    while at < len(ids):
        if ids[at] == marks.start:
            if ids[at + 1:at + 1 + len(marks.assistant)] == marks.assistant:
                first = at + 1 + len(marks.assistant)
                end = ids.index(marks.end, first)
                spans.append((first, end))
                at = end
            elif ids[at + 1:at + 1 + len(marks.user)] == marks.user:
                last_user = at
        at += 1
    for first, end in spans:
        if thinking and first < last_user:
            continue
        if ids[first] == marks.think:
            first += 2     # <think> and its line break
        for one in range(first, end + 1):
            flags[one] = True
    return flags


def with_rows(ids, marks):
    """As many tokens for each picture as it has rows."""
    out = []
    for one in ids:
        out += [one] * (vision_model.ROWS if one == marks.picture else 1)
    return out


class Stream:
    """Endless batches of chats of about one length each; the same seed gives the same ones."""

    def __init__(self, tokenizer, seed, longest, pictures=0.0, stage=0):
        self.rng = random.Random(seed)
        self.tokenizer, self.marks, self.longest = tokenizer, Marks(tokenizer), longest
        self.pictures, self.stage = pictures, stage
        self.pool = []

    def document(self):
        while True:
            messages, tools, thinking = chats.chat(self.rng, self.longest > USUAL, self.pictures, self.stage)
            ids = with_rows(self.tokenizer.encode(chats.render(messages, tools)), self.marks)
            if len(ids) <= self.longest:
                return ids, learned(ids, self.marks, thinking), chats.pictures_of(messages)

    def batch(self, tokens):
        """Chats of about `tokens` tokens together: neighbours by length, from a random place of the pool."""
        while len(self.pool) < POOL:
            self.pool.append(self.document())
        self.pool.sort(key=lambda one: len(one[0]))
        # A length is drawn as often as its chats come, by tokens: pick a random chat, take it and its shorter neighbours.
        top = self.rng.randrange(len(self.pool))
        length = len(self.pool[top][0]) - 1
        first = max(0, top + 1 - max(1, round(tokens / length)))
        chosen = self.pool[first:top + 1]
        del self.pool[first:top + 1]
        return chosen

    def tensors(self, chosen):
        """ids [B, T], targets [B, T] (-1: not learned), and the pictures in order."""
        length = max(len(one[0]) for one in chosen) - 1
        ids, targets = torch.zeros(len(chosen), length, dtype=torch.long), torch.full((len(chosen), length), -1)
        for at, (one, flags, _) in enumerate(chosen):
            ids[at, :len(one) - 1] = torch.tensor(one[:-1])
            targets[at, :len(one) - 1] = torch.tensor([target if flag else -1 for target, flag in zip(one[1:], flags[1:])])
        return ids, targets, [picture for one in chosen for picture in one[2]]
