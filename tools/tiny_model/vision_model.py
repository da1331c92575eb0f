# The picture's encoder in PyTorch, as vision/encoder computes projector "gemma3": SigLIP's transformer over patches, and means over squares of
# them. Not here: the projector, which learns with the text model (model.py).
import numpy
import torch
from torch import nn
from torch.nn import functional as F

import drawing
import model

PATCH, LAYERS, HEADS, INNER, MERGE = 8, 4, 3, 256, 2
WIDTH = model.PICTURE_WIDTH
GRID = drawing.SIDE // PATCH
ROWS = (GRID // MERGE) ** 2   # of a picture in a prompt
EPSILON = 1e-6
MEAN, DEVIATION = 0.5, 0.5


def as_input(images):
    """[N, patches, 3 * PATCH * PATCH] of [SIDE, SIDE, 3] bytes: channel, then line, then column within a patch."""
    x = torch.from_numpy(numpy.stack(images)).permute(0, 3, 1, 2).float().div_(255).sub_(MEAN).div_(DEVIATION)
    x = x.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)                 # [N, 3, GRID, GRID, PATCH, PATCH]
    return x.permute(0, 2, 3, 1, 4, 5).reshape(len(images), GRID * GRID, 3 * PATCH * PATCH)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH, EPSILON), nn.LayerNorm(WIDTH, EPSILON)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5, -1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


def merged(x):
    """[N, ROWS, WIDTH] of [N, patches, WIDTH]."""
    return x.view(-1, GRID // MERGE, MERGE, GRID // MERGE, MERGE, WIDTH).mean((2, 4)).reshape(-1, ROWS, WIDTH)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(3 * PATCH * PATCH, WIDTH)
        self.places = nn.Parameter(torch.randn(GRID * GRID, WIDTH) * 0.3)   # as large as patches, or places are learned late
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, EPSILON)

    def whole(self, patches):
        """[N, patches, WIDTH] of as_input's patches, in which each is still by itself."""
        x = self.patch(patches) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, patches):
        """[N, ROWS, WIDTH]."""
        return merged(self.whole(patches))
