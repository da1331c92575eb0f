"""The tests by name. Kept apart so that listing them needs neither the daemon nor a model."""


class Test:
    def __init__(self, name, function, limit_s):
        self.name, self.function, self.limit_s = name, function, limit_s


TESTS = {}


def test(name, limit_s=60):
    def register(function):
        assert name not in TESTS, name
        TESTS[name] = Test(name, function, limit_s)
        return function
    return register
