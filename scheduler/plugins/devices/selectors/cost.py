"""What an evaluation of a selector can cost at most, worked out from its syntax tree before it is evaluated.

The engine stops an evaluation after 10,000 iterations, but an iteration that appends copies the whole list, and lists
and strings that are joined to themselves grow with no iteration at all: 30 nested ``cel.bind`` of ``a + a`` would fill
any memory. Kubernetes' own estimate, which the API server makes, takes joining lists for free.

A size is an upper bound: what the API server admits in a device, what is written in the expression, and what functions
make of these. A unit of cost is 0.05 µs of CPU at most (measured where others used the cores, too: an element copied
into a longer list 0.07 µs, counted twice; one of two lists that are joined 0.2 µs, counted three times; an iteration
0.3 µs, counted as its eight expressions at least; a function that Kubernetes adds 3 to 36 µs, counted as 500 or more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from scheduler.plugins.devices.selectors.rewriting import DOMAIN_FUNCTION, RANGE_FUNCTION, UnsupportedExpression

MAX_COST: Final = 1_000_000
"""Maximum cost of one evaluation: 50 ms of CPU. Kubernetes' limit is the same number, in units of its own."""
MAX_DEPTH: Final = 200
"""Maximum depth of nested expressions; the parser admits somewhat more."""
MAX_ITERATIONS: Final = 10_000
"""Maximum of iterations of all loops of an evaluation together: the engine's limit."""
FUNCTION_COST: Final = 500
"""The cost of a call of a function that Kubernetes adds to CEL."""
BYTES_A_UNIT: Final = 16
_ENDLESS: Final = 10**12
"""The size or cost from which on nothing is counted."""


class Size(NamedTuple):
    """``length``: bytes of a text, elements of a list, entries of a map. ``item``: the size of the largest element or
    value; None: a text, or a value of a fixed size."""

    length: int
    item: Size | None = None

    @property
    def shallow(self) -> int:
        """Units to copy it: elements are copied as references."""
        return self.length if self.item is not None else 1 + self.length // BYTES_A_UNIT

    @property
    def deep(self) -> int:
        """Units to look at all that is in it."""
        if self.item is None:
            return 1 + self.length // BYTES_A_UNIT
        return min(1 + self.length * self.item.deep, _ENDLESS)

    @property
    def text(self) -> int:
        """Bytes of all that is in it, as a text."""
        return self.length if self.item is None else min(2 + self.length * (self.item.text + 2), _ENDLESS)


class Estimate(NamedTuple):
    cost: int
    size: Size


NOTHING = Size(0)
SCALAR = Size(64)
"""A number, a time, a value of Kubernetes' own types, or a text of a device, which has 64 bytes at most."""
NAME = Size(128)
"""A key: a domain of up to 63 bytes, or a name of up to 32; of a URL's query more, see ``getQuery``."""
_OF_DOMAIN = Size(32, SCALAR)
"""A device has at most 32 attributes and capacities."""
VARIABLES: Final[Mapping[str, Size]] = {
    "driver": Size(63),
    "attributes": Size(33, _OF_DOMAIN),
    "capacity": Size(33, _OF_DOMAIN),
    "allowMultipleAllocations": NOTHING,
}
"""Field of ``device`` → what it can have."""


def estimate(tree: Any, variables: Mapping[str, Size], slow_functions: frozenset[str], max_range: int) -> int:
    """The most units that an evaluation may take. ``slow_functions`` are those that Kubernetes adds. ``max_range``:
    elements of a list of numbers whose length is not written in the expression. Raises UnsupportedExpression for one
    that nests too deeply."""
    return _Estimator(slow_functions, max_range).visit(tree, variables, 0).cost


class _Estimator:
    def __init__(self, slow_functions: frozenset[str], max_range: int) -> None:
        self._slow_functions = slow_functions
        self._max_range = max_range

    def visit(self, node: Any, scope: Mapping[str, Size], depth: int) -> Estimate:
        """``scope``: variable → the size of its value."""
        if depth > MAX_DEPTH:
            raise UnsupportedExpression(f"more than {MAX_DEPTH} expressions in each other")
        if node.HasField("call_expr"):
            return self._call(node.call_expr, scope, depth)
        if node.HasField("comprehension_expr"):
            return self._loop(node.comprehension_expr, scope, depth)
        if node.HasField("list_expr"):
            cost, item = self._all(node.list_expr.elements, scope, depth)
            return Estimate(cost, Size(len(node.list_expr.elements), item))
        if node.HasField("struct_expr"):
            entries = node.struct_expr.entries
            keys_cost, _ = self._all([one.map_key for one in entries if one.HasField("map_key")], scope, depth)
            cost, item = self._all([one.value for one in entries], scope, depth)
            return Estimate(keys_cost + cost, Size(len(entries), item))
        if node.HasField("select_expr"):
            of = self.visit(node.select_expr.operand, scope, depth + 1)
            return Estimate(of.cost + 1, of.size.item or SCALAR)
        if node.HasField("ident_expr"):
            return Estimate(1, scope.get(node.ident_expr.name, SCALAR))
        constant = node.const_expr
        return Estimate(1, Size(len(constant.string_value.encode()) + len(constant.bytes_value)))

    def _all(self, nodes: Iterable[Any], scope: Mapping[str, Size], depth: int) -> tuple[int, Size]:
        """The cost of all, and the largest of them."""
        cost, largest = 1, NOTHING
        for one in nodes:
            found = self.visit(one, scope, depth + 1)
            cost += found.cost
            largest = _larger(largest, found.size)
        return _bounded(cost), largest

    def _loop(self, loop: Any, scope: Mapping[str, Size], depth: int) -> Estimate:
        """A macro. Those that loop append one element at most in each step, or have no list; ``cel.bind`` and its like
        are loops over nothing, whose accumulator is what is bound."""
        source = self.visit(loop.iter_range, scope, depth + 1)
        start = self.visit(loop.accu_init, scope, depth + 1)
        count = min(source.size.length, MAX_ITERATIONS)
        grown = start.size if start.size.item is None else Size(start.size.length + count, start.size.item)
        # At least a name: over a map the items are keys, over a list with two variables they are indices.
        item = _larger(source.size.item or SCALAR, NAME)
        inner = {**scope, loop.iter_var: item, loop.accu_var: grown}
        if loop.iter_var2:
            inner[loop.iter_var2] = item
        turn = 0
        if count:
            step = self.visit(loop.loop_step, inner, depth + 1)
            turn = step.cost + self.visit(loop.loop_condition, inner, depth + 1).cost
            if grown.item is not None:
                grown = Size(grown.length, _larger(grown.item, step.size.item or SCALAR))
            else:
                grown = _larger(grown, step.size)
        end = self.visit(loop.result, {**scope, loop.accu_var: grown}, depth + 1)
        return Estimate(_bounded(source.cost + start.cost + count * turn + end.cost), end.size)

    def _call(self, call: Any, scope: Mapping[str, Size], depth: int) -> Estimate:
        cost, sizes, name = 1, [], call.function
        space = call.target.ident_expr.name
        if space in _NAMESPACES and space not in scope:
            name = f"{space}.{name}"
        elif call.HasField("target"):
            target = self.visit(call.target, scope, depth + 1)
            cost += target.cost
            sizes.append(target.size)
        for argument in call.args:
            found = self.visit(argument, scope, depth + 1)
            cost += found.cost
            sizes.append(found.size)
        if name == RANGE_FUNCTION:
            written = call.args[0].const_expr.int64_value
            size = Size(min(written, self._max_range) if written > 0 else self._max_range, SCALAR)
        else:
            size = _RESULTS.get(name, _largest_of)(sizes)
        size = Size(min(size.length, _ENDLESS), size.item)
        return Estimate(_bounded(cost + self._own_cost(name, sizes, size)), size)

    def _own_cost(self, name: str, sizes: list[Size], result: Size) -> int:
        if name in _CHEAP:
            return 0
        if name == DOMAIN_FUNCTION:
            return FUNCTION_COST
        if name == "_+_":
            # Joining two lists costs more than appending one element, as loops do.
            return result.shallow * (3 if min(size.length for size in sizes) > 1 else 1)
        looked_at = sum(size.deep for size in sizes)
        if name in _QUADRATIC:
            looked_at *= max(size.length for size in sizes) + 1
        elif name in _SORTING:
            looked_at *= 16
        own = looked_at + result.deep
        return FUNCTION_COST + 10 * own if name in self._slow_functions else own


def _bounded(cost: int) -> int:
    return min(cost, _ENDLESS)


def _larger(one: Size, other: Size) -> Size:
    item = one.item if other.item is None else other.item if one.item is None else _larger(one.item, other.item)
    return Size(max(one.length, other.length), item)


# --- functions --------------------------------------------------------------------------------------------------------

_NAMESPACES = frozenset({"sets", "strings", "optional", "ip"})
"""Names that stand before those of functions, and are no variables there."""
_CHEAP = frozenset(
    {
        "_&&_",
        "_||_",
        "!_",
        "_?_:_",
        "_[_]",
        "_[?_]",
        "_?._",
        "@not_strictly_false",
        "size",
        "optional.of",
        "value",
        "hasValue",
    }
)
"""Functions that cost no more than their call: nothing is copied."""
_QUADRATIC = frozenset({"sets.contains", "sets.equivalent", "sets.intersects", "distinct", "sum"})
_SORTING = frozenset({"sort", "@sortByAssociatedKeys"})


def _largest_of(sizes: list[Size]) -> Size:
    """Of functions that return a value of a fixed size, or an argument or a part of one."""
    found = SCALAR
    for size in sizes:
        found = _larger(found, size)
    return found


def _joined(sizes: list[Size]) -> Size:
    one, other = (sizes * 2)[:2]
    return Size(one.length + other.length, _larger(one, other).item)


def _element(sizes: list[Size]) -> Size:
    return sizes[0].item or SCALAR


def _alternative(sizes: list[Size]) -> Size:
    return _largest_of(sizes[1:])


def _parts(sizes: list[Size]) -> Size:
    return Size(sizes[0].length + 1, Size(sizes[0].length))


def _replaced(sizes: list[Size]) -> Size:
    text, new = sizes[0].length, sizes[2].length if len(sizes) > 2 else 0
    return Size((text + 1) * (new + 1))


def _as_text(sizes: list[Size]) -> Size:
    """Quoted, escaped or with letters of other lengths, and what ``format`` writes of numbers."""
    total = sum(size.text for size in sizes)
    return Size(6 * total + 512 * (1 + sum(size.length for size in sizes if size.item is not None)))


def _list_as_text(sizes: list[Size]) -> Size:
    separator = sizes[1].length if len(sizes) > 1 else 0
    return Size(sizes[0].length * ((sizes[0].item or SCALAR).text + separator))


def _flat(sizes: list[Size]) -> Size:
    count, item = sizes[0].length, sizes[0].item or SCALAR
    # The most that it can be: all levels are flattened, whatever depth the call states.
    while item.item is not None:
        count, item = count * max(item.length, 1), item.item
    return Size(count, item)


def _query(sizes: list[Size]) -> Size:
    length = sizes[0].length
    return Size(length + 1, Size(length + 1, Size(length)))


_RESULTS: Mapping[str, Callable[[list[Size]], Size]] = {
    "_+_": _joined,
    "_?_:_": _alternative,
    "_[_]": _element,
    "_[?_]": _element,
    "_?._": _element,
    DOMAIN_FUNCTION: _element,
    "first": _element,
    "last": _element,
    "split": _parts,
    "findAll": _parts,
    "replace": _replaced,
    "join": _list_as_text,
    "format": _as_text,
    "strings.quote": _as_text,
    "string": _as_text,
    "bytes": _as_text,
    "lowerAscii": _as_text,
    "upperAscii": _as_text,
    "flatten": _flat,
    "getQuery": _query,
    "sum": _flat,
    **dict.fromkeys(
        ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_&&_", "_||_", "!_", "size", "matches", "contains"),
        lambda _: NOTHING,
    ),
}
"""Function → the size of its result."""
