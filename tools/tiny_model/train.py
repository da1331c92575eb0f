#!/usr/bin/python3
"""Trains the bundled text model and its projector on the CPU: train.py OUT-FOLDER [--steps N]. A stopped run goes on from OUT-FOLDER's last
checkpoint. Pictures come from step PICTURES_FROM on; OUT-FOLDER/encoder.pt (train_vision.py) must be there then.

Two processes of one thread each take the next part of a step until none is left; their gradients meet in shared memory. That keeps both cores
busy where two OpenMP threads would wait for each other. Not here: data (chats.py, stream.py), the networks (model.py, vision_model.py), the files
that ship (export.py).
"""
import argparse
import json
import math
import multiprocessing
import os
import random
import sys
import time

import fast_torch  # noqa: F401
import torch

import chats
import drawing
import held_rows
import model
import stream
import tokenizer
import vision_model

SEED = 20261130
MERGES = 502                 # with 256 bytes and ten markers 768 pieces
TOKENS, PARTS = 512, 6       # of a part, parts of a step
LONG, LONG_SHARE = 512, 0.07 # the last part of the run sees longer chats
PICTURES_FROM, PICTURES = 4000, 0.2  # the step from which on chats show pictures, and the share of chats that do
LATE_FROM = 4400             # the step from which on the mixture is chats.LATE; behind the first fall it is chats.LAST
WARM_UP, FALL, AGAIN, CLIP = 60, 0.4, 0.35, 1.0   # steps; the share of the steps in which the rate falls; of the peak; of a gradient's length
PEAK, BETAS = 3e-3, (0.9, 0.98)       # AdamW: the embedding and the norms
MATRIX_PEAK, MOMENTUM, DECAY = 0.025, 0.95, 0.02   # Muon: all other matrices
BLOCK = 50                   # steps between checkpoints; each block's data has a seed of its own
WORKERS = 2


def rate(step, steps, again):
    """The share of the peak rate: up in a line, flat, down in a line to 0. Flat, so that a run may still get shorter or longer on its way. Then
    `again` steps more, from AGAIN down to 0: what a first fall leaves unlearned."""
    if step >= steps:
        return AGAIN * (steps + again - step) / again
    return min(1, (step + 1) / WARM_UP, (steps - step) / (FALL * steps))


def orthogonal(matrix):
    """The nearest matrix with singular values near 1, by five Newton-Schulz steps with the coefficients of Muon (Jordan and others 2024,
    https://kellerjordan.github.io/posts/muon)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.t() if tall else matrix).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.t()
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


class Flat:
    """All weights in one tensor, their gradients in another: what two processes share is one copy. Matrices learn by Muon, the rest by AdamW
    (Loshchilov, Hutter 2019); each process turns its half of the matrices' updates."""

    def __init__(self, network, rank=0):
        named = list(network.named_parameters())
        size = sum(one.numel() for _, one in named)
        self.values, self.gradient = torch.empty(size), torch.zeros(size)
        self.mean, self.square = torch.zeros(size), torch.zeros(size)
        self.matrices, self.own, self.others = [], [], []
        at = 0
        for name, one in named:
            place = slice(at, at + one.numel())
            self.values[place] = one.data.flatten()
            one.data = self.values[place].view(one.shape)
            one.grad = self.gradient[place].view(one.shape)
            if one.dim() > 1 and name.startswith("layers."):
                self.matrices.append((place, one.shape))
                # gate_up is as much work as the other three
                layer = int(name.split(".")[1])
                if (("gate_up" in name) + layer) % WORKERS == rank:
                    self.own.append((place, one.shape))
            else:
                self.others.append(place)
            at = place.stop

    def turn(self, gradient, update):
        """Takes the gradient into the mean and writes the own matrices' directions into `update`, which the processes share."""
        for place, _ in self.matrices:
            self.mean[place].mul_(MOMENTUM).add_(gradient[place])
        for place, shape in self.own:
            ahead = gradient[place].add(self.mean[place], alpha=MOMENTUM).view(shape)
            update[place] = orthogonal(ahead).flatten() * math.sqrt(max(1, shape[0] / shape[1]))

    def step(self, gradient, update, step, share):
        for place, _ in self.matrices:
            self.values[place].mul_(1 - share * MATRIX_PEAK * DECAY).add_(update[place], alpha=-share * MATRIX_PEAK)
        for place in self.others:
            mean, square, part = self.mean[place], self.square[place], gradient[place]
            mean.lerp_(part, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(part, part, value=1 - BETAS[1])
            spread = (square / (1 - BETAS[1] ** (step + 1))).sqrt_().add_(1e-8)
            self.values[place].addcdiv_(mean / (1 - BETAS[0] ** (step + 1)), spread, value=-share * PEAK)


def make_tokenizer(folder):
    path = os.path.join(folder, "merges.json")
    if not os.path.exists(path):
        rng = random.Random(SEED)
        merges = tokenizer.train([chats.render(*chats.chat(rng, pictures=0.11)[:2]) for _ in range(15000)], MERGES)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(merges, file)
        os.rename(path + ".new", path)
    with open(path, encoding="utf-8") as file:
        return tokenizer.Tokenizer(json.load(file))


def encoded(encoder, pictures):
    """The encoder's rows [pictures * ROWS, PICTURE_WIDTH]."""
    with torch.no_grad():
        return encoder(vision_model.as_input([drawing.seen(one)[0] for one in pictures])).flatten(0, 1)


def held_accuracy(network, words, count, encoder):
    """Percent of held-out rows whose every answer token is the most likely one, per skill: what greedy decoding would write."""
    marks = stream.Marks(words)
    found = {}
    for skill in held_rows.SKILLS:
        if encoder is None and skill.startswith("picture, "):
            continue
        good = 0
        for row in held_rows.rows(skill, count, seed=1):
            messages = row["messages"] + [row["last"]]
            ids = stream.with_rows(words.encode(chats.render(messages, row["tools"])), marks)
            flags = stream.learned(ids, marks, row["thinking"])
            last = max(at for at, flag in enumerate(flags) if flag)
            first = last
            while flags[first - 1]:
                first -= 1
            sequence = torch.tensor(ids[:last + 1])[None]
            pictures = chats.pictures_of(messages)
            shown = (sequence[:, :-1] == marks.picture, encoded(encoder, pictures)) if pictures else None
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                hidden = network(sequence[:, :-1], pictures=shown)
                best = network.logits(hidden[0, first - 1:]).argmax(-1)
            good += bool((best == sequence[0, first:]).all())
        found[skill] = round(100 * good / count)
    return found


def load_encoder(folder):
    encoder = vision_model.Encoder()
    encoder.load_state_dict(torch.load(os.path.join(folder, "encoder.pt")))
    return encoder.eval()


def part(network, encoder, marks, ids, targets, pictures):
    """The gradient of a part joins the others'; (loss, learned tokens, tokens)."""
    chosen = targets >= 0
    shown = (ids == marks.picture, encoded(encoder, pictures)) if pictures else None
    with torch.autocast("cpu", torch.bfloat16):
        logits = network.logits(network(ids, chosen, shown))
    loss = torch.nn.functional.cross_entropy(logits.float(), targets[chosen], reduction="sum")
    loss.backward()
    return torch.tensor([float(loss), float(chosen.sum()), ids.numel()])


def work(rank, arguments, shared, counts, update, barrier, taken):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    words = make_tokenizer(arguments.folder)
    network = model.Model(len(words))
    marks, encoder = stream.Marks(words), None
    flat = Flat(network, rank)
    checkpoint = os.path.join(arguments.folder, "checkpoint.pt")
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        step = saved["step"]
        for name in ("values", "mean", "square"):
            getattr(flat, name).copy_(saved[name])
    barrier.wait()
    log = open(os.path.join(arguments.folder, "log"), "a", buffering=1, encoding="utf-8") if rank == 0 else None
    started, used, begun, losses, learned, seen = time.time(), time.process_time(), step, 0.0, 0, 0
    data = None
    long_from = int(arguments.steps * (1 - LONG_SHARE)) // BLOCK * BLOCK
    last = arguments.steps + arguments.again
    while step < last:
        if data is None or step % BLOCK == 0:
            long = long_from <= step < arguments.steps or step >= last - BLOCK
            stage = 2 if step >= arguments.steps else int(step >= LATE_FROM)
            data = stream.Stream(words, f"{SEED} {step // BLOCK}", LONG if long else stream.USUAL, PICTURES if step >= PICTURES_FROM else 0.0, stage)
            if encoder is None and step >= PICTURES_FROM:
                encoder = load_encoder(arguments.folder)
        flat.gradient.zero_()
        counts[rank] = 0
        parts = [data.batch(TOKENS) for _ in range(PARTS)]     # both make all of them: which process computes which is a matter of time
        while True:
            with taken.get_lock():
                mine = taken.value - step * PARTS
                if mine < PARTS:
                    taken.value += 1
            if mine >= PARTS:
                break
            counts[rank] += part(network, encoder, marks, *data.tensors(parts[mine]))
        shared[rank].copy_(flat.gradient)
        barrier.wait()
        total = counts.sum(0)
        gradient = (shared[0] + shared[1]).div_(total[1])
        norm = gradient.norm()
        if norm > CLIP:
            gradient.mul_(CLIP / norm)
        flat.turn(gradient, update)
        barrier.wait()
        flat.step(gradient, update, step, rate(step, arguments.steps, arguments.again))
        step += 1
        losses, learned, seen = losses + float(total[0]), learned + float(total[1]), seen + int(total[2])
        if rank == 0 and step % 25 == 0:
            spent, cpu = time.time() - started, time.process_time() - used
            log.write(f"step {step} loss {losses / learned:.4f} norm {norm:.2f} {seen / spent:.0f} tokens/s {seen / cpu / WORKERS:.0f} per cpu-s "
                      f"left {(last - step) * spent / (step - begun) / 60:.1f} min\n")
            losses, learned = 0.0, 0
        if rank == 0 and (step % BLOCK == 0 or step in (arguments.steps, last)):
            torch.save({"step": step, "values": flat.values, "mean": flat.mean, "square": flat.square}, checkpoint + ".new")
            os.rename(checkpoint + ".new", checkpoint)
            if step == arguments.steps:     # export.py takes the mean of these and the last
                torch.save(flat.values, os.path.join(arguments.folder, "first.pt"))
            if arguments.check and step % arguments.check == 0:
                log.write(f"held {step} {json.dumps(held_accuracy(network, words, 40, encoder))}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=6300)
    parser.add_argument("--again", type=int, default=750, help="steps more after the first fall of the rate")
    parser.add_argument("--check", type=int, default=400, help="steps between looks at held-out rows; 0: none")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    words = make_tokenizer(arguments.folder)
    size = sum(one.numel() for one in model.Model(len(words)).parameters())
    shared, counts = torch.zeros(WORKERS, size).share_memory_(), torch.zeros(WORKERS, 3).share_memory_()
    update = torch.zeros(size).share_memory_()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(WORKERS)
    checkpoint = os.path.join(arguments.folder, "checkpoint.pt")
    done = torch.load(checkpoint)["step"] if os.path.exists(checkpoint) else 0
    taken = context.Value("q", done * PARTS)    # parts of the run that a process has taken
    print(f"{size} weights, {len(words)} pieces, {arguments.steps} steps", flush=True)
    workers = [context.Process(target=work, args=(rank, arguments, shared, counts, update, barrier, taken)) for rank in range(WORKERS)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    sys.exit(max(abs(one.exitcode) for one in workers))


if __name__ == "__main__":
    main()
