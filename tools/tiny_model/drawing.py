# Draws the pictures of picture_skills.py, and shows them as the vision child does: made small by its bilinear filter, in a black square
# (docs/vision.md, "gemma3"). Not here: what is drawn.
import math
import struct
import zlib

import numpy

SIDE = 64   # pixels of the encoder's square


def outside(picture, x, y):
    """Pixels from the shape's edge, below 0 inside; x and y from its middle."""
    turn, radius = picture["turn"], picture["radius"]
    if turn:
        x, y = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
    shape = picture["shape"]
    if shape == "circle":
        return numpy.hypot(x, y) - radius
    x, y = abs(x) if shape != "triangle" else x, y if shape in ("triangle", "star") else abs(y)
    if shape == "square":
        return numpy.maximum(x, y) - 0.8 * radius
    if shape == "rectangle":
        short = picture["flatness"] * radius
        return numpy.maximum(x - short, y - 0.95 * radius) if picture["upright"] else numpy.maximum(x - 0.95 * radius, y - short)
    if shape == "cross":
        thick = picture["thickness"] * radius
        return numpy.minimum(numpy.maximum(x - radius, y - thick), numpy.maximum(x - thick, y - radius))
    if shape == "triangle":
        far = numpy.full(numpy.broadcast_shapes(x.shape, y.shape), -numpy.inf)
        for side in (90, 210, 330):     # the directions of its sides; a tip is on top
            far = numpy.maximum(far, x * math.cos(math.radians(side)) + y * math.sin(math.radians(side)) - 0.5 * radius)
        return far
    # A star: a tenth of it is a triangle between a tip (on top) and a notch; all other tenths are turned and mirrored onto that one.
    tenth = math.pi / 5
    angle = numpy.arctan2(x, -y)
    angle = numpy.abs((angle + tenth) % (2 * tenth) - tenth)
    away = numpy.hypot(x, y)
    notch = 0.42 * radius
    edge = (notch * math.cos(tenth) - radius, notch * math.sin(tenth))
    length = math.hypot(*edge)
    return ((away * numpy.cos(angle) - radius) * edge[1] - away * numpy.sin(angle) * edge[0]) / length


def coverage(picture, columns, rows):
    """[rows, columns]: how much of those pixels is the shape's, 0 to 1."""
    x, y = columns[None, :].astype(numpy.float32) + 0.5, rows[:, None].astype(numpy.float32) + 0.5
    return numpy.clip(0.5 - outside(picture, x - picture["centre"][0], y - picture["centre"][1]) / picture["softness"], 0, 1)


def coloured(picture, share, rows):
    """[rows, columns, 3] bytes: shape over background."""
    share = share[..., None]
    first, second = (numpy.array(one, numpy.float32) for one in picture["background"])
    way = ((rows.astype(numpy.float32) + 0.5) / picture["height"])[:, None, None]
    out = (first + (second - first) * way) * (1 - share) + numpy.array(picture["rgb"], numpy.float32) * share
    if picture["noise"]:
        out = out + numpy.random.default_rng(picture["seed"]).normal(0, picture["noise"], out.shape).astype(numpy.float32)
    return numpy.clip(numpy.rint(out), 0, 255).astype(numpy.uint8)


def whole(picture):
    rows = numpy.arange(picture["height"])
    return coloured(picture, coverage(picture, numpy.arange(picture["width"]), rows), rows)


def seen(picture):
    """([SIDE, SIDE, 3] bytes: `whole` made small, [SIDE, SIDE]: how much of a pixel is the shape's). Only what the filter reads is drawn, and
    colours come after the filter: they are those of `whole` but for the last bit, and noise is as strong as there before the filter."""
    width, height = picture["width"], picture["height"]
    scale = SIDE / max(width, height)

    def places(side):
        count = min(SIDE, math.ceil(side * scale))
        place = numpy.arange(count, dtype=numpy.float32) * numpy.float32((side - 1) / (count - 1))
        below = numpy.minimum(place.astype(numpy.int64), side - 1)
        return below, numpy.minimum(below + 1, side - 1), (place - below).astype(numpy.float32)
    left, right, across = places(width)
    top, bottom, down = places(height)
    drawn = coverage(picture, numpy.concatenate((left, right)), numpy.concatenate((top, bottom)))
    across, slant = across[None, :], down[:, None]
    upper = drawn[:len(top), :len(left)] * (1 - across) + drawn[:len(top), len(left):] * across
    lower = drawn[len(top):, :len(left)] * (1 - across) + drawn[len(top):, len(left):] * across
    small = upper * (1 - slant) + lower * slant
    image, share = numpy.zeros((SIDE, SIDE, 3), numpy.uint8), numpy.zeros((SIDE, SIDE), numpy.float32)
    y, x = (SIDE - len(top)) // 2, (SIDE - len(left)) // 2
    image[y:y + len(top), x:x + len(left)] = coloured(picture, small, top + down)
    share[y:y + len(top), x:x + len(left)] = small
    return image, share


def png(image):
    """The bytes of a PNG file (https://www.w3.org/TR/png) of [rows, columns, 3] bytes."""
    rows, columns, _ = image.shape
    lines = numpy.zeros((rows, 1 + 3 * columns), numpy.uint8)
    lines[:, 1:] = image.reshape(rows, -1)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b"")
