"""Where optional values may go: the engine ends the process when it hands a list that has one to a function written in
Python. Kubernetes knows no such list either, and fails with ``no such overload``.

Worked out from the syntax tree. A value's level is how many optionals may be in each other in it, wherever in it they
are: 0 for a value without any, one more for an optional of a value, one less for the value of an optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.plugins.devices.selectors.rewriting import UnsupportedExpression

_MAKING: Final = frozenset(
    {"optional.of", "optional.none", "optional.ofNonZeroValue", "first", "last", "regex.extract"}
)
_SELECTING: Final = frozenset({"_?._", "_[?_]"})
_OPENING: Final = frozenset({"orValue", "value"})
_PLAIN: Final = frozenset(
    {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_&&_", "_||_", "!_", "size", "hasValue", "type", "matches"}
)
"""Functions whose result has no optionals, whatever they are given."""
_NAMESPACES: Final = frozenset({"optional", "regex"})
_MANY: Final = 3
"""The level from which on nothing is counted."""


def check_optionals(tree: Any, functions_of_lists: frozenset[str]) -> None:
    """Raises UnsupportedExpression where one of the functions may be given a list that has an optional value."""
    _Levels(functions_of_lists).of(tree, {})


class _Levels:
    def __init__(self, functions_of_lists: frozenset[str]) -> None:
        self._functions_of_lists = functions_of_lists

    def of(self, node: Any, scope: Mapping[str, int]) -> int:
        """``scope``: variable → its value's level. Those of the device have none."""
        if node.HasField("call_expr"):
            return min(self._of_call(node.call_expr, scope), _MANY)
        if node.HasField("comprehension_expr"):
            return self._of_loop(node.comprehension_expr, scope)
        if node.HasField("list_expr"):
            return max([self.of(one, scope) for one in node.list_expr.elements], default=0)
        if node.HasField("struct_expr"):
            return max([self.of(one.value, scope) for one in node.struct_expr.entries], default=0)
        if node.HasField("select_expr"):
            return self.of(node.select_expr.operand, scope)
        return scope.get(node.ident_expr.name, 0) if node.HasField("ident_expr") else 0

    def _of_call(self, call: Any, scope: Mapping[str, int]) -> int:
        name, levels = _name_of(call), [self.of(one, scope) for one in call.args]
        if call.HasField("target"):
            levels.insert(0, self.of(call.target, scope))
        highest = max(levels, default=0)
        if name in self._functions_of_lists and highest:
            raise UnsupportedExpression(f"an optional value in a list of which {name} is asked")
        if name in _PLAIN:
            return 0
        if name in _MAKING:
            return highest + 1
        if name in _SELECTING:
            # Selecting from an optional gives an optional of the same level.
            return highest if _is_optional(call.args[0]) else highest + 1
        if name in _OPENING:
            return max(levels[0] - 1, *levels[1:], 0)
        return max(levels[1:]) if name == "_?_:_" else highest

    def _of_loop(self, loop: Any, scope: Mapping[str, int]) -> int:
        """A macro. Its steps add what they find to the accumulator, of which the expression in it does not know; so one
        step shows the level of all. What ``cel.bind`` binds is the accumulator of a loop without steps."""
        item = self.of(loop.iter_range, scope)
        start = self.of(loop.accu_init, scope)
        inner = {**scope, loop.iter_var: item, loop.iter_var2: item, loop.accu_var: start}
        self.of(loop.loop_condition, inner)
        end = max(start, self.of(loop.loop_step, inner))
        return self.of(loop.result, {**scope, loop.accu_var: end})


def _name_of(call: Any) -> str:
    space = call.target.ident_expr.name
    return f"{space}.{call.function}" if space in _NAMESPACES else str(call.function)


def _is_optional(node: Any) -> bool:
    name = _name_of(node.call_expr) if node.HasField("call_expr") else ""
    return name in _SELECTING or name in ("optional.of", "optional.none")
