"""Random JSON Schemas of the kinds that tools and structured outputs use, and values made to fit them by reading the schema anew."""
import json
import re

NAMES = ["name", "id", "x", "city", "été", "a\"b", "items", "value", "n1", "nn", "long_property_name", "type"]
WORDS = ["", "a", "ab", "hello", "été", "日本", "x y", "quote\" and \\ back", "line\nbreak", "😊", "0", "tab\t"]
PATTERNS = [  # pattern, and texts that fit it
    ("^[a-z]{2,5}$", ["ab", "abc", "hello"]), ("^\\d{3}-\\d{4}$", ["123-4567"]), ("^(foo|bar)+$", ["foo", "barfoo"]), ("ab", ["ab", "xaby", "cab"]),
    ("^x", ["x", "xyz"]), ("z$", ["z", "abz"]), ("^[^\\s\"]*$", ["", "ab"]), ("^[A-Z][a-z]*( [A-Z][a-z]*)*$", ["Ab Cd", "X"]), ("^a?b*c+$", ["c", "abbc", "bcc"]),
    ("^(?:\\w+\\.)*\\w+@ex\\.com$", ["a@ex.com", "a.b@ex.com"]), ("^\\u00e9.{1,3}$", ["éa", "éabc"]), ("a.*b", ["ab", "a b", "xaxbx"]), ("^$|^q+$", ["", "qq"]),
    ("\\\\", ["\\", "a\\b"]), ("^[\\x20-\\x7e]{0,8}$", ["", "a b", "\"q\"", "\\"]),
]
FORMATS = {"date": ["2024-02-29", "1999-12-31", "2000-02-29"], "date-time": ["2024-01-31T23:59:59Z", "2023-06-30T00:00:00.25+02:00"], "time": ["12:30:45Z", "00:00:00-05:00"],
           "uuid": ["123e4567-e89b-12d3-a456-426614174000"], "ipv4": ["127.0.0.1", "255.255.255.255"], "ipv6": ["::1", "fe80::1", "1:2:3:4:5:6:7:8", "::"],
           "email": ["a@b.co", "first.last@example.com"], "hostname": ["localhost", "a-b.example.com"], "uri": ["https://example.com/a?b=c#d", "urn:x:y"]}


class Maker:
    """Schemas. Whatever is made can be fulfilled, mostly."""

    def __init__(self, random):
        self.random = random
        self.definitions = {}

    def schema(self):
        self.definitions = {}
        made = self.part(4)
        if self.definitions and isinstance(made, dict):
            made = dict(made)
            made["$defs"] = self.definitions
        return made

    def part(self, depth):
        r = self.random
        kinds = ["string", "string", "integer", "integer", "number", "boolean", "null", "enum", "const"]
        if depth > 0:
            kinds += ["object"] * 6 + ["array"] * 3 + ["anyOf"] * 2 + ["allOf", "map", "tuple", "ref", "types", "any", "patterns"]
        return getattr(self, "make_" + r.choice(kinds))(depth - 1)

    def make_boolean(self, _):
        return {"type": "boolean"}

    def make_null(self, _):
        return {"type": "null"}

    def make_any(self, _):
        return self.random.choice([{}, True])

    def make_types(self, _):
        return {"type": self.random.sample(["string", "integer", "boolean", "null", "number"], 2)}

    def make_enum(self, _):
        return {"enum": self.random.sample([1, -2, 2.5, "a", "b\"c", "été", None, True, [1, "x"], {"k": [None]}], self.random.randint(1, 5))}

    def make_const(self, _):
        return {"const": self.random.choice(["fixed", 7, None, {"a": {"b": 1}}, False])}

    def make_string(self, _):
        r = self.random
        made = {"type": "string"}
        kind = r.randrange(8)
        if kind < 2:
            made["pattern"] = r.choice(PATTERNS)[0]
        elif kind == 2:
            made["format"] = r.choice(list(FORMATS))
        elif kind < 5:
            low = r.randint(0, 4)
            if r.random() < 0.7:
                made["minLength"] = low
            if r.random() < 0.7:
                made["maxLength"] = low + r.randint(0, 60)
        elif kind == 5:
            made["pattern"] = r.choice(PATTERNS)[0]
            made["maxLength"] = r.randint(5, 12)
        if r.random() < 0.2:
            made["description"] = "what it is"
        return made

    def make_integer(self, _):
        r = self.random
        made = {"type": "integer"}
        size = 10 ** r.randint(0, 12)
        low = r.randint(-size, size)
        high = low + r.randint(0, size)
        kind = r.randrange(6)
        if kind in (1, 3, 4):
            made[r.choice(["minimum", "minimum", "exclusiveMinimum"])] = low
        if kind in (2, 3, 4):
            made[r.choice(["maximum", "maximum", "exclusiveMaximum"])] = high + 2
        if kind == 5:
            made["multipleOf"] = r.randint(1, 30)
            if r.random() < 0.5:
                made["minimum"] = 0
        return made

    def make_number(self, _):
        r = self.random
        made = {"type": "number"}
        bound = lambda: round(r.uniform(-1, 1) * 10 ** r.randint(-2, 5), r.randint(0, 4))
        low = bound()
        if r.random() < 0.5:
            made[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.5:
            made[r.choice(["maximum", "exclusiveMaximum"])] = round(low + abs(bound()) + 0.5, 4)
        return made

    def make_object(self, depth):
        r = self.random
        names = r.sample(NAMES, r.randint(0, 6))
        made = {"type": "object", "properties": {name: self.part(depth) for name in names}}
        required = [name for name in names if r.random() < 0.5]
        if required:
            made["required"] = required
        if r.random() < 0.6:
            made["additionalProperties"] = False if r.random() < 0.6 else self.part(depth)
        return made

    def make_map(self, depth):
        made = {"type": "object", "additionalProperties": self.part(depth)}
        if self.random.random() < 0.3:
            made["maxProperties"] = self.random.randint(0, 4)
        if self.random.random() < 0.2 and made.get("maxProperties", 1) > 0:
            made["minProperties"] = 1
        if self.random.random() < 0.3:
            made["propertyNames"] = {"pattern": "^[a-z_]+$"}
        return made

    def make_patterns(self, depth):
        made = {"type": "object", "patternProperties": {"^n": self.part(depth)}}
        if self.random.random() < 0.5:
            made["patternProperties"]["[0-9]$"] = self.part(depth)
        if self.random.random() < 0.5:
            made["properties"] = {self.random.choice(NAMES): self.part(depth)}
        if self.random.random() < 0.6:
            made["additionalProperties"] = self.random.choice([False, {"type": "integer"}])
        return made

    def make_array(self, depth):
        r = self.random
        made = {"type": "array", "items": self.part(depth)}
        low = r.randint(0, 2)
        if r.random() < 0.4:
            made["minItems"] = low
        if r.random() < 0.4:
            made["maxItems"] = low + r.randint(0, 5)
        return made

    def make_tuple(self, depth):
        r = self.random
        made = {"type": "array", "prefixItems": [self.part(depth) for _ in range(r.randint(1, 3))]}
        if r.random() < 0.6:
            made["items"] = r.choice([False, {"type": "integer"}])
        if r.random() < 0.4:
            made["minItems"] = r.randint(0, len(made["prefixItems"]))
        return made

    def make_anyOf(self, depth):
        return {"anyOf": [self.part(depth) for _ in range(self.random.randint(1, 3))]}

    def make_allOf(self, depth):
        r = self.random
        if r.random() < 0.5:
            return {"type": "object", "allOf": [{"properties": {"a": self.part(depth)}, "required": ["a"]}, {"properties": {"b": self.part(depth)}}]}
        low = r.randint(-50, 50)
        return {"allOf": [{"type": ["integer", "string"], "minimum": low}, {"type": ["integer", "null"], "maximum": low + r.randint(0, 500)}]}

    def make_ref(self, depth):
        name = "d%d" % self.random.randint(0, 2)
        if name not in self.definitions:
            self.definitions[name] = {}  # so that what is inside may refer to it: a recursive schema
            inner = self.part(min(depth, 2))
            if self.random.random() < 0.5:
                inner = {"type": "object", "properties": {"value": inner, "next": {"anyOf": [{"$ref": "#/$defs/" + name}, {"type": "null"}]}}, "required": ["value"]}
            self.definitions[name] = inner
        return {"$ref": "#/$defs/" + name}


class NoValue(Exception):
    pass


class Filler:
    """Values for a schema; the caller still asks the validator, since allOf and patterns are filled by luck."""

    def __init__(self, random, root):
        self.random = random
        self.root = root

    def value(self, schema, depth=0):
        r = self.random
        if depth > 12:
            raise NoValue
        if schema is True or schema == {}:
            return r.choice([1, "free", None, [1], {"k": "v"}])
        if schema is False:
            raise NoValue
        if "$ref" in schema:
            at = self.root
            for segment in schema["$ref"].split("/")[1:]:
                at = at[segment]
            return self.value(at, depth + 1)
        if "anyOf" in schema:
            return self.value(r.choice(schema["anyOf"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return r.choice(schema["enum"])
        if "allOf" in schema:
            return self.value(self.merge(schema), depth + 1)
        kind = schema.get("type", "object" if "properties" in schema or "patternProperties" in schema else "string")
        if isinstance(kind, list):
            kind = r.choice(kind)
        return getattr(self, "fill_" + kind)(schema, depth)

    @staticmethod
    def merge(schema):
        out = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            for key, value in part.items():
                if key == "properties":
                    out[key] = {**out.get(key, {}), **value}
                elif key == "type" and key in out:
                    first = out[key] if isinstance(out[key], list) else [out[key]]
                    out[key] = [one for one in first if one in (value if isinstance(value, list) else [value])]
                else:
                    out[key] = value
        return out

    def fill_null(self, *_):
        return None

    def fill_boolean(self, *_):
        return self.random.random() < 0.5

    def fill_string(self, schema, _):
        for pattern, texts in PATTERNS:
            if schema.get("pattern") == pattern:
                return self.random.choice(texts)
        if "format" in schema:
            return self.random.choice(FORMATS[schema["format"]])
        text = self.random.choice(WORDS)
        low, high = schema.get("minLength", 0), schema.get("maxLength", 100)
        return (text + "é" * low)[:max(high, low)]

    def fill_integer(self, schema, _):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -10**6 - 1) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 10**6 + 1) - 1)
        if low > high:
            raise NoValue
        value = self.random.choice([low, high, self.random.randint(low, high)])
        step = schema.get("multipleOf", 1)
        return value // step * step

    def fill_number(self, schema, _):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 1000))
        return round(self.random.uniform(low, high), self.random.randint(0, 6))

    def fill_array(self, schema, depth):
        prefix = schema.get("prefixItems", [])
        items = schema.get("items", False if prefix else True)
        low = schema.get("minItems", 0)
        high = min(schema.get("maxItems", low + 3), len(prefix) if items is False else 99)
        if high < low:
            raise NoValue
        count = self.random.randint(low, high) if depth < 6 else low
        return [self.value(prefix[i] if i < len(prefix) else items, depth + 1) for i in range(count)]

    def fill_object(self, schema, depth):
        out = {}
        properties = schema.get("properties", {})
        for name, part in properties.items():
            if name in schema.get("required", []) or (depth < 6 and self.random.random() < 0.5):
                out[name] = self.value(part, depth + 1)
        patterns = schema.get("patternProperties", {})
        if patterns and "n" not in properties:
            out["no"] = self.value(patterns["^n"], depth + 1)
        more = schema.get("additionalProperties", "properties" not in schema and not patterns)
        if more is not False and len(out) < schema.get("maxProperties", 99):
            out["extra_key"] = self.value(more, depth + 1)
        if schema.get("minProperties", 0) > len(out):
            raise NoValue
        return out


def texts_of(value, random):
    """A value as people's programs write it."""
    style = random.randrange(3)
    if style == 0:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if style == 1:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=2)


def has_exponent(text):
    return re.search(r"[0-9]e[-+]?[0-9]", text) is not None
