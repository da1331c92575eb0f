# Writes GGUF version 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) with F32 and Q8_0 tensors. Not here: which ones.
import struct

import numpy

ALIGNMENT = 32
U32, I32, F32_VALUE, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, Q8_0 = 0, 8


def string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def value(one):
    """(type, bytes): bool, int (u32), float (f32), str, or a list of str, float (f32) or int (i32)."""
    if isinstance(one, bool):
        return BOOL, struct.pack("<?", one)
    if isinstance(one, int):
        return U32, struct.pack("<I", one)
    if isinstance(one, float):
        return F32_VALUE, struct.pack("<f", one)
    if isinstance(one, str):
        return STRING, string(one)
    if isinstance(one[0], str):
        return ARRAY, struct.pack("<IQ", STRING, len(one)) + b"".join(string(part) for part in one)
    if isinstance(one[0], float):
        return ARRAY, struct.pack(f"<IQ{len(one)}f", F32_VALUE, len(one), *one)
    return ARRAY, struct.pack(f"<IQ{len(one)}i", I32, len(one), *one)


def q8_0(matrix):
    """Blocks of 32 weights of a row: a half-precision scale, the largest weight through 127, then 32 signed bytes."""
    blocks = numpy.ascontiguousarray(matrix, numpy.float32).reshape(-1, 32)   # whole blocks in a row
    scale = numpy.abs(blocks).max(1, keepdims=True) / numpy.float32(127)
    whole = numpy.rint(blocks / numpy.where(scale > 0, scale, 1)).astype(numpy.int8)
    out = numpy.empty((len(blocks), 34), numpy.uint8)
    out[:, :2] = scale.astype(numpy.float16).view(numpy.uint8)
    out[:, 2:] = whole.view(numpy.uint8)
    return out.tobytes()


class Writer:
    def __init__(self):
        self.values, self.tensors = [], []

    def put(self, key, one):
        kind, data = value(one)
        self.values.append(string(key) + struct.pack("<I", kind) + data)

    def add(self, name, array, kind):
        """`array` with rows first; GGUF names the innermost dimension first."""
        data = q8_0(array) if kind == Q8_0 else numpy.ascontiguousarray(array, numpy.float32).tobytes()
        self.tensors.append((name, array.shape[::-1], kind, data))

    def write(self, path):
        head = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.values)), *self.values]
        offset = 0
        for name, shape, kind, data in self.tensors:
            head.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
            offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
        text = b"".join(head)
        with open(path, "wb") as file:
            file.write(text + bytes(-len(text) % ALIGNMENT))
            for _, _, _, data in self.tensors:
                file.write(data + bytes(-len(data) % ALIGNMENT))
