"""Token ids with a plain text of their own, read from a model file's metadata: what a scripted engine may say."""
import struct

SIMPLE = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Metadata:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 8
        self.take("<Q")
        self.values = {}
        for _ in range(self.take("<Q")):
            key = self.string()
            self.values[key] = self.value(self.take("<I"))

    def take(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.take("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind in SIMPLE:
            return self.take(SIMPLE[kind])
        if kind == 8:
            return self.string()
        element = self.take("<I")
        return [self.value(element) for _ in range(self.take("<Q"))]


class Letters:
    """ids: of tokens whose text is one ASCII letter; text(n): what the first n of them, cycled, say; byte_ids: byte -> its token."""

    def __init__(self, path):
        values = Metadata(path).values
        tokens = values["tokenizer.ggml.tokens"]
        self.end_id = values["tokenizer.ggml.eos_token_id"]
        self.ids = [i for i, token in enumerate(tokens) if len(token) == 1 and token.isascii() and token.isalpha()][:8]
        self.texts = [tokens[i] for i in self.ids]
        self.byte_ids = {int(token[3:5], 16): i for i, token in enumerate(tokens) if len(token) == 6 and token.startswith("<0x")}
        if len(self.ids) < 4:
            raise SystemExit(f"{path}: a vocabulary with less than four letters is of no use to these tests")

    def text(self, number):
        return "".join(self.texts[i % len(self.texts)] for i in range(number))
