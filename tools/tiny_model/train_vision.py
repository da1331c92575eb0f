#!/usr/bin/python3
"""Trains the picture's encoder on the CPU before it is joined to the text model: train_vision.py OUT-FOLDER writes OUT-FOLDER/encoder.pt.

Each of a picture's rows, and all together, must tell colour, shape and place, and each patch where in it the shape is, through matrices that are then
thrown away. Without the last one shapes are learned late: colours and backgrounds vary too much. Not here: the pictures
(picture_skills.py, drawing.py), the network (vision_model.py), the joining (train.py).
"""
import argparse
import os
import random
import sys
import time

import fast_torch  # noqa: F401
import numpy
import torch
from torch import nn
from torch.nn import functional as F

import drawing
import picture_skills
import train
import vision_model

SEED = 20261201
BATCH = 48
# Pictures, which are drawn once and shown again and again; steps; and whether "no red circle was ever on the left" may be learned. At first that
# does no harm, at last it would be wrong about the pictures that are held out.
ROUNDS = ((20000, 2200, True), (40000, 1600, True), (40000, 800, False))
OUTLINE = 5.0                    # the weight of where in a patch the shape is
FINE = 4                         # parts of a patch along each side, for where the shape is
PEAK, MATRIX_PEAK, WARM_UP, FALL, DECAY = 1e-3, 0.007, 50, 0.5, 0.02   # AdamW's rate, Muon's rate; steps; share of the steps
THREADS = 2                      # 1.6 times as fast as one, for 1.2 times the processor time
NAMES = {"colour": list(picture_skills.COLOURS), "shape": picture_skills.SHAPES, "place": picture_skills.PLACES}


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrices = nn.ModuleDict({name: nn.Linear(vision_model.WIDTH, len(among)) for name, among in NAMES.items()})
        self.outline = nn.Linear(vision_model.WIDTH, FINE * FINE)

    def forward(self, rows):
        rows = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6)
        return {name: matrix(rows) for name, matrix in self.matrices.items()}


def outline(share):
    """[patches, FINE * FINE]: how much of each part of each patch is the shape's."""
    part = vision_model.PATCH // FINE
    means = share.reshape(vision_model.GRID, FINE, part, vision_model.GRID, FINE, part).mean((2, 5))
    return means.transpose(0, 2, 1, 3).reshape(vision_model.GRID ** 2, FINE * FINE).astype(numpy.float16)


def draw(rng, count, held):
    """(images, {name: the right ones}, outlines) of pictures that training shows, or of others."""
    pictures = [picture_skills.drawn(rng, held) for _ in range(count)]
    images, shares = zip(*(drawing.seen(one) for one in pictures))
    right = {name: torch.tensor([among.index(one[name]) for one in pictures]) for name, among in NAMES.items()}
    return images, right, [outline(one) for one in shares]


def accuracy(encoder, heads, images, right, _):
    """Percent of pictures, by what the rows say together."""
    with torch.no_grad():
        said = [heads(encoder(vision_model.as_input(images[at:at + 250]))) for at in range(0, len(images), 250)]
    return {name: 100 * float((torch.cat([one[name].mean(1) for one in said]).argmax(-1) == right[name]).float().mean()) for name in NAMES}


class Muon:
    """For the matrices of the transformer, as in train.py."""

    def __init__(self, matrices):
        self.matrices = [(one, torch.zeros_like(one)) for one in matrices]

    def step(self, share):
        with torch.no_grad():
            for one, mean in self.matrices:
                mean.mul_(train.MOMENTUM).add_(one.grad)
                update = train.orthogonal(one.grad.add(mean, alpha=train.MOMENTUM)).float() * max(1, one.shape[0] / one.shape[1]) ** 0.5
                one.mul_(1 - share * MATRIX_PEAK * DECAY).add_(update, alpha=-share * MATRIX_PEAK)


def ruled_out(right):
    """{name: [pictures, among]}: True where, with the other two as they are, training never shows it."""
    out = {}
    found = {name: [among[one] for one in right[name]] for name, among in NAMES.items()}
    for name, among in NAMES.items():
        rows = []
        for at in range(len(right[name])):
            one = {key: found[key][at] for key in NAMES}
            rows.append([picture_skills.held_combination(**{**one, name: other}) for other in among])
        out[name] = torch.tensor(rows)
    return out


def train_round(number, encoder):
    """New pictures and new heads; the rate rises, stays flat, and falls to 0."""
    count, steps, any_rule = ROUNDS[number]
    torch.manual_seed(SEED + number)
    rng = random.Random(SEED + number)
    started = time.time()
    images, right, outlines = draw(rng, count, False)
    held, shown = draw(rng, 1000, True), draw(rng, 1000, False)
    print(f"round {number}: {count} pictures in {time.time() - started:.0f} s", flush=True)
    heads = Heads()
    matrices = [one for one in encoder.layers.parameters() if one.dim() > 1]
    others = [one for one in (*encoder.parameters(), *heads.parameters()) if all(one is not other for other in matrices)]
    muon, adam = Muon(matrices), torch.optim.AdamW(others, lr=PEAK, betas=train.BETAS, weight_decay=0.0)
    order = []
    for step in range(steps):
        share = min((step + 1) / WARM_UP, 1, (1 - step / steps) / FALL)
        adam.param_groups[0]["lr"] = PEAK * share
        if len(order) < BATCH:
            order = rng.sample(range(len(images)), len(images))
        chosen, order = order[:BATCH], order[BATCH:]
        with torch.autocast("cpu", torch.bfloat16):
            patches = encoder.whole(vision_model.as_input([images[one] for one in chosen]))
            said, seen = heads(vision_model.merged(patches)), heads.outline(patches)
        if not any_rule:
            for name, out in ruled_out({name: all_of[chosen] for name, all_of in right.items()}).items():
                said[name] = said[name].float().masked_fill(out[:, None], -1e4)
        # Each row by itself, and all together.
        loss = sum(F.cross_entropy(one.float().transpose(1, 2), right[name][chosen][:, None].expand(-1, vision_model.ROWS)) +
                   F.cross_entropy(one.float().mean(1), right[name][chosen]) for name, one in said.items())
        true = torch.from_numpy(numpy.stack([outlines[one] for one in chosen])).float()
        loss = loss + OUTLINE * F.binary_cross_entropy_with_logits(seen.float(), true)
        adam.zero_grad(set_to_none=True)
        for one in matrices:
            one.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_([*others, *matrices], 1.0)
        adam.step()
        muon.step(share)
        if (step + 1) % 100 == 0:
            texts = [name + " (" + ", ".join(f"{key} {percent:.1f}" for key, percent in accuracy(encoder, heads, *among).items()) + ")"
                     for name, among in (("held out", held), ("like shown", shown))]
            print(f"step {step + 1} loss {float(loss):.3f} {' '.join(texts)} {time.time() - started:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    encoder = vision_model.Encoder()
    print(f"{sum(one.numel() for one in encoder.parameters())} weights", flush=True)
    for number in range(len(ROUNDS)):
        path = os.path.join(arguments.folder, f"encoder-{number}.pt")
        if os.path.exists(path):
            encoder.load_state_dict(torch.load(path))
            continue
        train_round(number, encoder)
        torch.save(encoder.state_dict(), path + ".new")
        os.rename(path + ".new", path)
    torch.save(encoder.state_dict(), os.path.join(arguments.folder, "encoder.pt"))


if __name__ == "__main__":
    sys.exit(main())
