"""Trivial bodies: what they are for each kind of function, and that a task which one of them resolves is refused."""

from __future__ import annotations

import ast

import pytest

from taskforge.errors import TaskRejected
from taskforge.generate.acquire import Snapshot
from taskforge.generate.remove import remove
from taskforge.generate.trivial import refuse_trivial, trivial_solutions
from taskforge.languages import language
from taskforge.model import Candidate, Entry, TestMap, Tree
from taskforge.sandbox import Environment, Limits
from taskforge.sandbox.pool import Pool

PYTHON = language("python")
VALUES = ["None", "True", "False", "0", '""', "[]", "{}", "()"]


def bodies(source: str, *names: str) -> dict[str, str]:
    """Name of the solution -> the file."""
    tree = Tree({"m.py": Entry(source.encode())})
    symbols = tuple(one for one in PYTHON.index("m.py", source.encode()) if not names or one.qualname in names)
    found = trivial_solutions(Candidate(symbols=symbols), tree, PYTHON)
    for one in found:
        ast.parse(one.changes["m.py"])
    return {one.name: one.changes["m.py"].decode() for one in found}


def test_a_function_returns_each_value_and_each_argument() -> None:
    found = bodies("x = 1\ndef f(a, /, b=2, *c, d, **e):\n    '''Doc.'''\n    a += 1\n    return a\ny = 2\n")
    assert list(found) == [f"return {it}" for it in VALUES] + [f"return argument {it}" for it in range(1, 6)]
    head = "x = 1\ndef f(a, /, b=2, *c, d, **e):\n    '''Doc.'''\n    return "
    told = [text.removeprefix(head).removesuffix("\ny = 2\n") for text in found.values()]
    assert told == [*VALUES, "a", "b", "c", "d", "e"]


def test_a_method_returns_itself_and_a_constructor_nothing() -> None:
    source = "class A:\n    def __init__(self, x):\n        self.x = x\n    def f(self):\n        return self.x\n"
    assert bodies(source, "A.f")["return argument 1"].endswith("def f(self):\n        return self\n")
    assert list(bodies(source, "A.__init__").values()) == [source.replace("self.x = x", "return")]
    # Both at once: the constructor returns nothing in each.
    assert len(bodies(source)) == len(VALUES) + 1


def test_a_coroutine_is_a_function_and_a_generator_is_empty_or_passes_on() -> None:
    assert bodies("async def f(a):\n    await a\n    return 1\n")["return argument 1"] == "async def f(a):\n    return a\n"
    found = bodies("def f(a):\n    for b in a:\n        yield b\n")
    assert list(found.values()) == [
        "def f(a):\n    return\n    yield\n",
        "def f(a):\n    yield from a; return\n    yield\n",
    ]
    found = bodies("async def f(a):\n    async for b in a:\n        yield b\n")
    assert list(found.values()) == ["async def f(a):\n    return\n    yield\n"]


def test_several_functions_get_the_same_body_at_once() -> None:
    found = bodies("def f(a): return a + 1\r\ndef g(a, b):\r\n    c = a\r\n    return c * b\r\ndef h(): yield 1; yield 2\r\n")
    last = "def f(a): return None\r\ndef g(a, b):\r\n    return b\r\ndef h(): return; yield\r\n"
    assert found["return argument 2"] == last
    assert found["return []"] == "def f(a): return []\r\ndef g(a, b):\r\n    return []\r\ndef h(): return; yield\r\n"


def test_arguments_of_a_newer_syntax_are_not_tried() -> None:
    found = bodies("def f(a: 'x\\'y' = lambda b, c: (b, c)):\n    a()\n    return a\n")
    assert "return argument 1" in found
    assert "return argument 2" not in found


CASES = {
    # All that is asked of them is that they do not raise, or that they give back what they got.
    "nothing": (b"def f(a):\n    b = a\n    return b * 2\n", b"def test_f(): f(1)\n", "return None"),
    "second": (b"def f(a, b):\n    c = a\n    return c and b\n", b"def test_f(): assert f(1, 'x') == 'x'\n", "return argument 2"),
    "generator": (b"def f(a):\n    for b in a: yield b\n", b"def test_f(): assert [*f([3])] == [3]\n", "return argument 1"),
    "coroutine": (
        b"async def f():\n    a = {}\n    return dict(a)\n",
        b"import asyncio\ndef test_f(): assert asyncio.run(f()) == {}\n",
        "return {}",
    ),
    # Twins that ask for something.
    "asks": (b"def f(a):\n    b = a\n    return b * 2\n", b"def test_f(): assert f(1) == 2\n", ""),
    "asks twice": (
        b"def f(a):\n    b = a\n    return b * 2\n",
        b"def test_f(): assert f(0) == 0\n# in a file of its own\ndef test_g(): assert f(1) == 2\n",
        "",
    ),
    "hangs": (b"def f(a):\n    b = a\n    return b - 1\n", b"def test_f():\n    a = 3\n    while a != -1: a = f(a)\n", ""),
    "dies": (b"def f(a):\n    b = a\n    return b + 1\n", b"import os\ndef test_f():\n    f(1) == 2 or os._exit(3)\n", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_trivial_body_resolves_is_refused(
    case: str,
    shop: Snapshot,
    shop_environment: Environment,
    shop_protected: tuple[str, ...],
    shop_map: TestMap,
    pool: Pool,
) -> None:
    code, tests, name = CASES[case]
    parts = tests.split(b"# in a file of its own\n")
    files = {f"tests/test_extra_{number}.py": Entry(b"from shop.extra import f\n" + it) for number, it in enumerate(parts)}
    original = shop.tree.with_changes({"shop/extra.py": Entry(code), **files})
    ids = [f"{path}::test_{'fg'[number]}" for number, path in enumerate(files)]
    records = tuple(
        shop_map.tests[0].model_copy(update={"id": it, "file": it.partition("::")[0], "seconds": 0.1 * number})
        for number, it in enumerate(ids)
    )
    candidate = Candidate(symbols=tuple(PYTHON.index("shop/extra.py", code)))
    removal = remove(original, candidate, PYTHON)

    def tried() -> dict[str, object]:
        return refuse_trivial(
            candidate,
            original,
            removal.tree,
            ids,
            shop_map.model_copy(update={"tests": records}),
            language=PYTHON,
            environment=shop_environment,
            pool=pool,
            protected=shop_protected,
            limits=Limits(),
        )

    if name:
        with pytest.raises(TaskRejected) as caught:
            tried()
        assert (caught.value.reason, f"`{name}`" in caught.value.message) == ("trivial_solution", True)
    else:
        report = tried()
        assert report["tried"] == len(VALUES) + 1
        assert float(str(report["cpu_seconds"])) > 0
