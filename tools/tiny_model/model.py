# The text network in PyTorch, as the engine computes architecture "qwen3" (engine/model): RMSNorm, grouped attention with q/k norm, rotary
# positions in halves, SwiGLU, tied output; and the projector, whose rows stand in place of a picture's tokens. Not here: the picture's encoder
# (vision_model.py), data, the loop, the files that ship.
import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 192, 5, 4, 2, 64, 512
PICTURE_WIDTH = 96   # of the encoder's rows
ROPE_BASE = 10000.0
EPSILON = 1e-6


class Normalise(torch.autograd.Function):
    """x / sqrt(mean(x^2) + EPSILON), in fewer passes over memory than autograd's own."""

    @staticmethod
    def forward(context, x):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)
        y = x * scale
        context.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(context, gradient):
        y, scale = context.saved_tensors
        return (gradient - y * (gradient * y).mean(-1, keepdim=True)) * scale


class Norm(nn.Module):
    """`scaled`: with a weight of its own. Where a matrix follows, its columns do the same work, and the file gets ones."""

    def __init__(self, size, scaled):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size)) if scaled else None

    def forward(self, x):
        y = Normalise.apply(x.float())
        return y if self.weight is None else y * self.weight


class Attend(torch.autograd.Function):
    """softmax(q k' / sqrt(HEAD) + mask) v in 32 bits; q [N, group * T, HEAD], k and v [N, T, HEAD], mask [group * T, T]. By hand, since
    most of the time goes into passes over the [T, T] weights."""

    @staticmethod
    def forward(context, q, k, v, mask):
        scale = 1 / math.sqrt(HEAD)
        weight = torch.softmax(torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale), -1)
        out = torch.bmm(weight, v)
        context.save_for_backward(q, k, v, weight, out)
        return out

    @staticmethod
    def backward(context, gradient):
        q, k, v, weight, out = context.saved_tensors
        scale = 1 / math.sqrt(HEAD)
        by_v = torch.bmm(weight.transpose(1, 2), gradient)
        by_score = torch.bmm(gradient, v.transpose(1, 2)).sub_((gradient * out).sum(-1, keepdim=True)).mul_(weight)
        return torch.bmm(by_score, k).mul_(scale), torch.bmm(by_score.transpose(1, 2), q).mul_(scale), by_v, None


def rotary(length):
    """cos and sin [T, 1, HEAD]; the second half of a head's numbers turns with the first (NEOX order)."""
    frequency = ROPE_BASE ** (-torch.arange(0, HEAD, 2, dtype=torch.float32) / HEAD)
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    angle = torch.cat((angle, angle), -1)[:, None]
    return angle.cos(), angle.sin()


def turn(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(WIDTH, False), Norm(WIDTH, False)
        self.q_norm, self.k_norm = Norm(HEAD, True), Norm(HEAD, True)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, cos, sin, mask, chosen=None):
        """`chosen` [B, T]: only those places are wanted, and come as [places, WIDTH]."""
        batch, length, _ = x.shape
        qkv = self.qkv(self.attn_norm(x)).view(batch, length, HEADS + 2 * KV_HEADS, HEAD)
        q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS), 2)
        q, k = turn(self.q_norm(q), cos, sin), turn(self.k_norm(k), cos, sin)
        # [B * KV, group * T, HEAD]: the heads that share keys and values stand below each other
        group = HEADS // KV_HEADS
        q = q.view(batch, length, KV_HEADS, group, HEAD).permute(0, 2, 3, 1, 4).reshape(batch * KV_HEADS, group * length, HEAD)
        k = k.transpose(1, 2).reshape(batch * KV_HEADS, length, HEAD)
        v = v.float().transpose(1, 2).reshape(batch * KV_HEADS, length, HEAD)
        with torch.autocast("cpu", enabled=False):
            mixed = Attend.apply(q, k, v, mask)
        mixed = mixed.view(batch, KV_HEADS, group, length, HEAD).permute(0, 3, 1, 2, 4).reshape(batch, length, HEADS * HEAD)
        if chosen is not None:
            x, mixed = x[chosen], mixed[chosen]
        x = x + self.out(mixed).float()
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up).float()


class Projector(nn.Module):
    """Gemma 3's: a norm and a matrix."""

    def __init__(self):
        super().__init__()
        self.norm = Norm(PICTURE_WIDTH, True)
        self.matrix = nn.Linear(PICTURE_WIDTH, WIDTH, bias=False)

    def forward(self, rows):
        return self.matrix(self.norm(rows))


class Model(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm(WIDTH, True)
        self.projector = Projector()
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            deviation = 0.02 if "embedding" in name else 1 / math.sqrt(parameter.shape[1])
            if name.endswith(("out.weight", "down.weight")):
                deviation /= math.sqrt(2 * LAYERS)
            nn.init.normal_(parameter, 0.0, deviation)

    def forward(self, ids, chosen=None, pictures=None):
        """Hidden states [B, T, WIDTH] of ids [B, T]; a row is one chat, with anything behind its end. `chosen` [B, T]: of those places alone,
        [places, WIDTH]. `pictures`: (places [B, T], the encoder's rows for them in order)."""
        length = ids.shape[1]
        mask = torch.full((length, length), -1e9).triu(1).repeat(HEADS // KV_HEADS, 1)
        cos, sin = rotary(length)
        x = self.embedding(ids)
        if pictures is not None:
            x = x.index_put(pictures[0].nonzero(as_tuple=True), self.projector(pictures[1]).float())
        for layer in self.layers:
            x = layer(x, cos, sin, mask, chosen if layer is self.layers[-1] else None)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.weight)
