"""Selectors, compiled once and evaluated once for each distinct device: the answers are kept.

The engine is Google's CEL (``cel-expr-python``). An expression is compiled twice: as it is written, with Kubernetes'
types, which finds its faults; and rewritten for evaluation, see ``rewriting``. What an evaluation can cost is worked
out before the first one, see ``cost``: the engine has no limit but that on iterations.

Expressions that Kubernetes 1.36 accepts and that are an error here, for the pod alone: ``format.*`` validators,
``transformMap`` and ``transformMapEntry``, ``string`` of an address, ``indexOf`` and ``lastIndexOf`` of a list,
``device`` or a whole map of it bound to another name, names that begin with ``device_``, ``lists.range`` of more than
3,000, an optional value in a list whose order, sum, least or largest element is asked, and what may cost more than
``MAX_COST``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from cel_expr_python import cel

from scheduler.cluster.devices.descriptions import Described
from scheduler.plugins.devices.selectors import regexes
from scheduler.plugins.devices.selectors.cost import MAX_COST, VARIABLES, estimate
from scheduler.plugins.devices.selectors.functions import (
    BOOL,
    DOUBLE,
    DYN,
    FUNCTIONS,
    INT,
    LIST,
    MAP,
    OPAQUE,
    STRING,
    Function,
    dispatch,
)
from scheduler.plugins.devices.selectors.optionals import check_optionals
from scheduler.plugins.devices.selectors.rewriting import (
    DOMAIN_FUNCTION,
    FIELD_PREFIX,
    MATCH_FUNCTION,
    RANGE_FUNCTION,
    Read,
    UnsupportedExpression,
    rewrite,
)
from scheduler.plugins.devices.selectors.syntax import tree_of
from scheduler.plugins.devices.selectors.values import MESSAGE, POOL, QUANTITY, quantity, semver

MAX_EXPRESSION_BYTES = 10 * 1024
MAX_COMPILED = 2048
MAX_ANSWERS = 262_144
MAX_RANGE = 3_000
"""Elements of ``lists.range``. The engine copies a list for each element that ``map`` and ``filter`` append: 0.3 s of
CPU for 3,000 and 4.8 s for 10,000, measured on one core that others used, too."""

_EXTENSIONS = """
name: kubernetes
extensions:
- name: sets
- name: lists
- name: two-var-comprehensions
- name: strings
- name: optional
- name: bindings
- name: regex
"""

COMPILE = "CEL compile error"
RUN_TIME = "CEL runtime error"


class SelectorError(NamedTuple):
    """``stage`` is COMPILE or RUN_TIME."""

    stage: str
    message: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.message}"


class Selector(NamedTuple):
    """A compiled expression. ``cost``: units that an evaluation takes at most, of 0.05 µs each."""

    program: Any
    reads: frozenset[Read] | None
    cost: int


# --- compiling --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=MAX_COMPILED)
def compiled(expression: str) -> Selector | SelectorError:
    """The compiled expression, or what is wrong with it. Never raises."""
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        return SelectorError(COMPILE, f"expression is longer than {MAX_EXPRESSION_BYTES} bytes")
    try:
        fault = _type_fault(expression)
        if fault:
            return SelectorError(COMPILE, fault)
        rewritten = rewrite(expression)
        # Types were checked above. The rewritten expression must not be: it stores values of different types alike.
        program = _evaluator().compile(rewritten.expression, disable_check=True)
        tree = tree_of(program.serialize())
        cost = estimate(tree, _SIZES, _SLOW_FUNCTIONS, MAX_RANGE)
        if cost > MAX_COST:
            raise UnsupportedExpression(f"too complex: its cost may be {cost}, the limit is {MAX_COST}")
        check_optionals(tree, _FUNCTIONS_OF_LISTS)
        return Selector(program, rewritten.reads, cost)
    except UnsupportedExpression as error:
        return SelectorError(COMPILE, f"not supported by Tandem: {error}")
    except RuntimeError as error:
        return SelectorError(COMPILE, _first_line(str(error)))


_FAULT = re.compile(r"ERROR: <input>:\d+:\d+: (.*)(?:\n \|.*)*")
_MIXED_NUMBERS = re.compile(
    r"found no matching overload for '_[<>]=?_' applied to '\((int|uint|double), (int|uint|double)\)'"
)


def _type_fault(expression: str) -> str:
    """What is wrong with the expression's types, or "". Kubernetes lets numbers of different types be ordered."""
    try:
        checked = _checker().compile(expression)
    except RuntimeError as error:
        faults = list(_FAULT.finditer(str(error).removesuffix(" [INVALID_ARGUMENT]")))
        if not faults:
            return _first_line(str(error))
        faults = [fault for fault in faults if not _MIXED_NUMBERS.match(fault[1])]
        return "compilation failed: " + "\n".join(fault[0] for fault in faults) if faults else ""
    result = checked.return_type()
    if result in (cel.Type.BOOL, cel.Type.DYN):
        return ""
    return f"must evaluate to bool or the unknown type, not {str(result).lower()}"


def _first_line(message: str) -> str:
    return message.removeprefix("INVALID_ARGUMENT: ").partition("\n")[0]


def load() -> None:
    """Make the environments, of which each takes some ms."""
    _checker()
    _evaluator()


@lru_cache(maxsize=1)
def _checker() -> Any:
    """Knows the types that Kubernetes declares; evaluates nothing."""
    types: dict[str, Any] = {**_PLAIN_TYPES, **{name: cel.Type.AbstractType(name) for name in OPAQUE}}
    overloads: dict[str, list[Any]] = {}
    for row in (*FUNCTIONS, *_REGEX):
        identity = "_".join((row.name, *row.parameters))
        overloads.setdefault(row.name, []).append(
            cel.Overload(identity, types[row.result], [types[kind] for kind in row.parameters], row.is_member)
        )
    variables = {f"device.{field}": kind for field, kind in _variables(types[QUANTITY]).items()}
    return _environment(variables, overloads)


@lru_cache(maxsize=1)
def _evaluator() -> Any:
    message = cel.Type(MESSAGE)
    types: dict[str, Any] = {**_PLAIN_TYPES, **dict.fromkeys(OPAQUE, message)}
    rows_of: dict[tuple[str, bool, tuple[str, ...]], list[Function]] = {}
    for row in (*FUNCTIONS, *_REGEX, *_OWN):
        stored = tuple([MESSAGE if kind in OPAQUE else kind for kind in row.parameters])
        rows_of.setdefault((row.name, row.is_member, stored), []).append(row)
    overloads: dict[str, list[Any]] = {}
    for (name, is_member, stored), rows in rows_of.items():
        parameters = [types[kind] for kind in rows[0].parameters]
        result = types[rows[0].result]
        has_opaque = any(kind in OPAQUE for kind in rows[0].parameters)
        call = dispatch(rows) if has_opaque else rows[0].call
        overloads.setdefault(name, []).append(
            cel.Overload("_".join((name, *stored, *["member"] * is_member)), result, parameters, is_member, call)
        )
    variables = {f"{FIELD_PREFIX}{field}": kind for field, kind in _variables(message).items()}
    return _environment(variables, overloads)


def _variables(capacity: Any) -> dict[str, Any]:
    types = cel.Type
    return {
        "driver": types.STRING,
        "attributes": types.Map(types.STRING, types.Map(types.STRING, types.DYN)),
        "capacity": types.Map(types.STRING, types.Map(types.STRING, capacity)),
        "allowMultipleAllocations": types.BOOL,
    }


def _environment(variables: Mapping[str, Any], overloads: Mapping[str, list[Any]]) -> Any:
    return cel.NewEnv(
        descriptor_pool=POOL,
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables=variables,
        functions=[cel.FunctionDecl(name, rows) for name, rows in overloads.items()],
    )


_PLAIN_TYPES: dict[str, Any] = {
    STRING: cel.Type.STRING,
    INT: cel.Type.INT,
    BOOL: cel.Type.BOOL,
    DOUBLE: cel.Type.DOUBLE,
    DYN: cel.Type.DYN,
    LIST: cel.Type.List(cel.Type.DYN),
    MAP: cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}


def _domain(maps: Mapping[str, Any], domain: str) -> Any:
    return maps.get(domain, {})


def _range(count: int) -> list[int]:
    if count > MAX_RANGE:
        raise ValueError(regexes.OVER_LIMIT)
    return list(range(count))


_OWN = (
    Function(MATCH_FUNCTION, True, (STRING, STRING), BOOL, regexes.is_match),
    Function(MATCH_FUNCTION, False, (STRING, STRING), BOOL, regexes.is_match),
    Function(DOMAIN_FUNCTION, True, (MAP, STRING), MAP, _domain),
    Function(RANGE_FUNCTION, False, (INT,), LIST, _range),
)


_REGEX = (
    Function("find", True, (STRING, STRING), STRING, regexes.find),
    Function("findAll", True, (STRING, STRING), LIST, regexes.find_all),
    Function("findAll", True, (STRING, STRING, INT), LIST, regexes.find_all),
)


_SIZES = {f"{FIELD_PREFIX}{field}": size for field, size in VARIABLES.items()}
_FUNCTIONS_OF_LISTS = frozenset([row.name for row in (*FUNCTIONS, *_REGEX) if {LIST, DYN} & {*row.parameters}])
_SLOW_FUNCTIONS = frozenset([row.name for row in (*FUNCTIONS, *_REGEX, *_OWN)])


def cost_of(expression: str) -> int:
    """Units that an evaluation takes at most, of 0.05 µs each; 0 for what can't be compiled."""
    selector = compiled(expression)
    return selector.cost if isinstance(selector, Selector) else 0


# --- evaluating -------------------------------------------------------------------------------------------------------


def matches(expression: str, device: Described) -> bool | SelectorError:
    """Whether a device passes a selector, or what kept the question from being answered. Never raises."""
    selector = compiled(expression)
    if isinstance(selector, SelectorError):
        return selector
    return _evaluated(expression, device if selector.reads is None else _reduced(device, selector.reads))


@lru_cache(maxsize=MAX_ANSWERS)
def _evaluated(expression: str, device: Described) -> bool | SelectorError:
    selector = compiled(expression)
    assert isinstance(selector, Selector)
    regexes.start()
    try:
        value = selector.program.eval(data=_data(device))
        if value.type() == cel.Type.ERROR:
            return SelectorError(RUN_TIME, _worded(str(value.value())))
        if value.type() == cel.Type.BOOL:
            return bool(value.value())
        kind = str(value.type()).lower()
    except (RuntimeError, ValueError) as error:
        return SelectorError(RUN_TIME, _worded(str(error)))
    cause = f"unsupported native conversion from {kind} to 'bool'"
    return SelectorError(RUN_TIME, f"CEL result of type {kind} could not be converted to bool: {cause}")


@lru_cache(maxsize=MAX_ANSWERS)
def _reduced(device: Described, reads: frozenset[Read]) -> Described:
    """The fields of the device that the selector reads, and those that are an error whether they are read or not."""
    return Described(
        device.driver,
        tuple(
            [
                entry
                for entry in device.attributes
                if Read("attributes", *entry[:2]) in reads or not _is_value(*entry[2:])
            ]
        ),
        tuple([entry for entry in device.capacity if Read("capacity", entry[0], entry[1]) in reads]),
        device.allows_multiple,
    )


def _is_value(kind: str, value: str | int | bool) -> bool:
    """Whether CEL can be given the value. The rest is a list, or a version that is none."""
    if kind != "version":
        return kind in _AS_VALUE
    try:
        semver(str(value))
    except ValueError:
        return False
    return True


_AS_VALUE: dict[str, Callable[[Any], Any]] = {"string": str, "int": int, "bool": bool, "version": semver}


def _data(device: Described) -> dict[str, Any]:
    """Raises ValueError for a value that Kubernetes would not have let in."""
    attributes: dict[str, dict[str, Any]] = {}
    for domain, name, kind, value in device.attributes:
        convert = _AS_VALUE.get(kind)
        if convert is None:
            raise ValueError(f"attribute {name}: unsupported attribute value")
        try:
            attributes.setdefault(domain, {})[name] = convert(value)
        except ValueError as error:
            raise ValueError(f"attribute {name}: parse semantic version: {error}") from error
    capacity: dict[str, dict[str, Any]] = {}
    for domain, name, amount in device.capacity:
        capacity.setdefault(domain, {})[name] = quantity(amount)
    return {
        FIELD_PREFIX + "driver": device.driver,
        FIELD_PREFIX + "attributes": attributes,
        FIELD_PREFIX + "capacity": capacity,
        FIELD_PREFIX + "allowMultipleAllocations": device.allows_multiple,
    }


_NO_KEY = re.compile(r'Key not found in map : "?([^"]*)"?')


def _worded(message: str) -> str:
    """The engine's message in the words that kube-scheduler's users know."""
    head, colon, rest = message.partition(": ")
    if colon and head.isupper():
        message = rest
    missing = _NO_KEY.search(message)
    if missing is not None:
        return f"no such key: {missing[1]}"
    if message.startswith(("No matching overloads found", "no such overload")):
        return "no such overload"
    return {
        "divide by zero": "division by zero",
        "modulus by zero": "modulus by zero",
        "Iteration budget exceeded": regexes.OVER_LIMIT,
    }.get(message.removesuffix(" [INTERNAL]"), message)
