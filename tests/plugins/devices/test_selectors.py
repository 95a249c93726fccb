"""CEL selectors: what kube-scheduler 1.36 answers, expression by expression (docs/kube-scheduler/dra.md §7)."""

from __future__ import annotations

import time

import msgspec
import pytest

from scheduler.cluster.devices.descriptions import Described
from scheduler.plugins.devices.selectors.cost import MAX_COST
from scheduler.plugins.devices.selectors.regexes import OVER_LIMIT
from scheduler.plugins.devices.selectors.rewriting import Read, UnsupportedExpression, conjuncts, rewrite
from scheduler.plugins.devices.selectors.selector import COMPILE, RUN_TIME, SelectorError, compiled, cost_of, matches

DEVICE = Described(
    "drv",
    (("drv", "i", "int", 1), ("drv", "k", "string", "x"), ("drv", "v", "version", "1.0.0+a")),
    (("drv", "memory", "40Gi"),),
    False,
)
A = 'device.attributes["drv"]'

ANSWERS = {
    "A.k == 1": False,
    'dyn(1) == "a"': False,
    "A.i == 1.0": True,
    "A.i < 1.5": True,
    "1 < 1.5": True,
    'A.nosuch == "x" || A.k == "x"': True,
    'A.nosuch == "x" && A.k == "z"': False,
    'A.v == semver("1.0.0+b")': True,
    'A.v.compareTo(semver("1.0.0-rc.1")) > 0': True,
    '"x" in device.attributes': False,
    'device.attributes[?"x"].hasValue()': True,
    'device.attributes["x"] == {}': True,
    'has(device.attributes["x.y"].z)': False,
    "A.?nosuch.orValue(3) == 3": True,
    'quantity("1000m") == quantity("1")': True,
    'quantity("1000m") in [quantity("1")]': True,
    "-7 / 2 == -3": True,
    "-7 % 2 == -1": True,
    '"é".size() == 1': True,
    'device.driver == "drv" && !device.allowMultipleAllocations': True,
    'device.capacity["drv"].memory.isGreaterThan(quantity("39Gi"))': True,
    'device.capacity["drv"].memory.asApproximateFloat() > 1': True,
    'cel.bind(x, device.attributes["drv"], x.k == "x" && x.i == 1)': True,
    'A.all(k, k != "nosuch") && A.exists(k, v, v == "x")': True,
    '"%s-%d".format(["x", 3]) == "x-3"': True,
    'sets.contains(["a", "b"], ["a"]) && [3, 1].max() == 3 && [1, 3].isSorted()': True,
    '"model100".find("([a-z]+)([0-9]+)") == "model100" && "a1b2".findAll("[0-9]", 1) == ["1"]': True,
    'url("https://example.com:80/x?q=1").getHost() == "example.com:80"': True,
    'ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.1.2.3")': True,
    'semver("v1.2", true).minor() == 2 && !isSemver("1.2")': True,
    'sign(quantity("-1")) == -1 && quantity("2").sub(1) == quantity("1")': True,
}

ERRORS = {
    "A.k > 1": (RUN_TIME, "no such overload"),
    'A.nosuch == "x" || false': (RUN_TIME, "no such key: nosuch"),
    'device.attributes["x.y"].z == 1': (RUN_TIME, "no such key: z"),
    'A.v == semver("1.2")': (RUN_TIME, "No Major.Minor.Patch elements found"),
    "9223372036854775807 + 1 == 0": (RUN_TIME, "integer overflow"),
    "1 / 0 == 1": (RUN_TIME, "division by zero"),
    "A.k": (
        RUN_TIME,
        "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
    ),
    "size(A.v) == 1": (RUN_TIME, "no such overload"),
    "A.v < A.v": (RUN_TIME, "no such overload"),
    "A.k.compareTo(A.k) == 0": (RUN_TIME, "no such overload"),
    "lists.range(100000000).size() == 1": (RUN_TIME, "operation cancelled: actual cost limit exceeded"),
    "1 == 1.0": (
        COMPILE,
        "compilation failed: ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'\n"
        " | 1 == 1.0\n | ..^",
    ),
    'string(quantity("1")) == ""': (
        COMPILE,
        "compilation failed: ERROR: <input>:1:7: found no matching overload for 'string' applied to "
        '\'(kubernetes.Quantity)\'\n | string(quantity("1")) == ""\n | ......^',
    ),
    "device.driver": (COMPILE, "must evaluate to bool or the unknown type, not string"),
}

UNSUPPORTED = (
    'format.dns1123Label().validate("a").hasValue()',
    '{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}',
    "[3, 1].indexOf(1) == 1",
    'string(ip("::1")) == "::1"',
    'cel.bind(a, device.attributes, a[?"x"].hasValue())',
    "cel.bind(d, device, d.driver == 'drv')",
    "[1].all(device_x, device_x == 1)",
)
"""Kubernetes accepts these; here they are an error of the pod, and never another answer."""

OPTIONAL_IN_A_LIST = (
    "[dyn(optional.none())].sum() == 1",
    "[dyn(optional.of(1))].isSorted()",
    "[dyn(A.?nosuch)].min() == 1",
    '[dyn(A[?"nosuch"])].min() == 1',
    '[dyn(device.attributes[?"x"])].max() == 1',
    "[1].map(x, dyn(optional.of(x))).sum() == 1",
    "[1].map(x, dyn(x)).map(y, [y].first()).map(z, dyn(z)).sum() == 1",
    "[dyn([1].first())].min() == 1",
    '[dyn({"a": optional.none()})].isSorted()',
    "dyn([[optional.none()]]).isSorted()",
    "cel.bind(x, [dyn(optional.of(1))], x.sum() == 1)",
    "[dyn(optional.of(optional.of(1)).value())].sum() == 1",
    "[dyn(optional.of([optional.of(1)])).orValue([])].isSorted()",
    "[dyn(optional.of(1).optMap(x, x + 1))].sum() == 1",
    "[dyn(true ? optional.of(1) : optional.none())].max() == 1",
    "dyn([[1], [2]].map(x, optional.of(x))).max() == 1",
)
"""Each is a list with an optional value for a function written in Python, in whose hands it would end the process."""


@pytest.mark.parametrize(("expression", "answer"), ANSWERS.items())
def test_a_selector_answers_as_in_kube_scheduler(expression: str, answer: bool) -> None:
    assert matches(expression.replace("A.", f"{A}."), DEVICE) is answer


@pytest.mark.parametrize(("expression", "error"), ERRORS.items())
def test_a_selector_that_fails_says_why(expression: str, error: tuple[str, str]) -> None:
    assert matches(expression.replace("A.", f"{A}.").replace("(A)", f"({A})"), DEVICE) == SelectorError(*error)


@pytest.mark.parametrize("expression", ['A.v == "1.0.0+a"', "A.v == 1", 'device.capacity["drv"].memory == A.i'])
def test_a_version_or_quantity_is_just_unequal_to_a_value_of_another_type(expression: str) -> None:
    assert matches(expression.replace("A.", f"{A}."), DEVICE) is False


@pytest.mark.parametrize("expression", UNSUPPORTED)
def test_what_is_not_supported_is_an_error_and_no_answer(expression: str) -> None:
    assert isinstance(matches(expression, DEVICE), SelectorError)


@pytest.mark.parametrize("expression", OPTIONAL_IN_A_LIST)
def test_no_function_is_given_a_list_that_has_an_optional_value(expression: str) -> None:
    answer = matches(expression.replace("A.", f"{A}.").replace("A[", f"{A}["), DEVICE)
    assert isinstance(answer, SelectorError)


@pytest.mark.parametrize(
    "expression",
    [
        "[A.?nosuch.orValue(1), 3].max() == 3",
        '[{"a": {"b": 2}}.?a.?b.orValue(1), 3].max() == 3',
        "optional.of([3, 1]).value().min() == 1",
        "[1, 2].map(x, optional.of(x).value()).sum() == 3",
        "A.?nosuch.hasValue() || [1, 2].isSorted()",
        "optional.of(2).optMap(x, [x, 1].max() == 2).orValue(false)",
        "[optional.of(1).hasValue()].isSorted()",
        "[[2, 1].first().value(), 1].sum() == 3",
    ],
)
def test_the_value_of_an_optional_may_be_in_such_a_list(expression: str) -> None:
    assert matches(expression.replace("A.", f"{A}."), DEVICE) is True


def test_loops_in_each_other_that_are_too_many_to_be_read_are_an_error() -> None:
    expression = "true"
    for number in range(40):
        expression = f"[1].all(x{number}, {expression})"
    assert isinstance(matches(expression, DEVICE), SelectorError)


def test_an_expression_longer_than_the_api_server_allows_is_not_compiled() -> None:
    assert isinstance(compiled("true || " * 2000 + "true"), SelectorError)


def test_a_selector_looks_only_at_the_attributes_that_it_names() -> None:
    reads = rewrite(f'{A}.k == "x" && device.capacity["drv"].memory.isGreaterThan(quantity("1"))').reads
    assert reads == frozenset({Read("attributes", "drv", "k"), Read("capacity", "drv", "memory")})
    assert rewrite(f'"k" in {A}').reads is None
    assert rewrite('device.attributes[?"drv"].hasValue()').reads is None


def test_text_that_looks_like_a_device_is_left_alone() -> None:
    expression = """'device.attributes["x"]' == "device.attributes['y']" // device.attributes["z"]"""
    assert rewrite(expression).expression == expression


def test_the_device_as_a_whole_is_refused() -> None:
    with pytest.raises(UnsupportedExpression):
        rewrite("size([device]) == 1")


def test_a_value_of_an_attribute_that_is_no_version_is_an_error() -> None:
    broken = msgspec.structs.replace(DEVICE, attributes=(("drv", "v", "version", "one"),))
    assert isinstance(matches(f"{A}.v.major() == 1", broken), SelectorError)
    assert matches(f"{A}.v.major() == 1", DEVICE) is True


def doubling(first: str, times: int) -> str:
    """A value that is joined to itself, without any loop."""
    expression = f"a{times}.size() > 0"
    for number in range(times, 0, -1):
        expression = f"cel.bind(a{number}, a{number - 1} + a{number - 1}, {expression})"
    return f"cel.bind(a0, {first}, {expression})"


HOSTILE = (
    "lists.range(3000).map(i, i).size() > 0",
    "lists.range(2999).all(i, lists.range(2999).all(j, i + j >= 0))",
    "lists.range(3000).map(i, 'aaaaaaaaaaaaaaaaaaaaaaaaa').join('bbbb').size() > 0",
    f"[{','.join(['1'] * 4500)}].filter(i, i > 0).size() > 0",
    f"'{'a' * 5000}'.matches('(a*)*b')",
    f"{'(' * 2000}true{')' * 2000}",
    f"{'!' * 5000}true",
    "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0))",
    doubling("[1, 1]", 24),
    doubling('"aa"', 28),
    "sets.contains(lists.range(3000), lists.range(3000))",
    "[lists.range(3000), lists.range(3000), lists.range(3000)].map(l, l.map(x, x)).flatten().size() > 0",
    "lists.range(3000).all(i, cidr('10.0.0.0/8').containsIP('10.1.1.1'))",
    "lists.range(3000).map(i, i).map(i, i).map(i, i).size() > 0",
)


@pytest.mark.parametrize("expression", HOSTILE)
def test_an_expression_that_is_meant_to_take_long_ends_soon(expression: str) -> None:
    began = time.process_time()
    matches(expression, DEVICE)
    assert time.process_time() - began < 1, "seconds of CPU; 0.15 at most where it was measured, to compile the longest"


def test_an_expression_that_may_take_too_long_is_an_error_that_says_so() -> None:
    error = matches(doubling("[1, 1]", 24), DEVICE)
    assert isinstance(error, SelectorError) and error.stage == COMPILE
    assert "too complex: its cost may be" in error.message and "the limit is 1000000" in error.message


def test_functions_that_compare_each_of_one_list_with_each_of_another_cost_the_product_of_their_lengths() -> None:
    error = matches("sets.contains(lists.range(3000), lists.range(3000))", DEVICE)
    assert isinstance(error, SelectorError) and "too complex: its cost may be" in error.message


@pytest.mark.parametrize(
    "chosen", ["{}.orValue([])", "(device.driver == 'drv' ? {} : [])", "(device.driver != 'drv' ? [] : {})"]
)
def test_a_list_that_may_be_chosen_costs_what_it_costs_where_it_stands_alone(chosen: str) -> None:
    lists, loop = "[lists.range(200)]", ".all(one, one.all(x, x >= 0))"
    optional = f"optional.of({lists})" if "orValue" in chosen else lists
    assert cost_of(chosen.format(optional) + loop) > cost_of(lists + loop) > 200


CHEAP = (
    f'{A}.k == "x"',
    'device.capacity["drv"].memory.compareTo(quantity("40Gi")) >= 0 && device.driver == "drv"',
    f"[{', '.join(map(repr, range(100)))}].exists(m, {A}.i == m)",
    f'{A}.k.split(",").exists(one, one == "x")',
    "device.attributes.all(d, device.attributes[d].all(k, k != ''))",
    doubling("[1, 1]", 8),
    "lists.range(500).map(i, i * 2).filter(i, i > 10).size() > 0",
)


@pytest.mark.parametrize("expression", CHEAP)
def test_an_expression_of_a_usual_size_is_far_from_the_limit(expression: str) -> None:
    assert 0 < cost_of(expression) < MAX_COST // 1.5
    assert isinstance(matches(expression, DEVICE), bool)


def test_a_variable_of_a_loop_that_is_called_like_a_namespace_is_a_variable() -> None:
    assert matches("[[1, 2], [3]].exists(sets, sets.size() == 2)", DEVICE) is True


def test_a_range_is_bounded() -> None:
    assert matches("lists.range(3000).size() == 3000", DEVICE) is True
    assert isinstance(matches("lists.range(3001).size() > 0", DEVICE), SelectorError)


@pytest.mark.parametrize("pattern", ["(a|aa){1,60}c", r"\\pL\\pN", "((a{1,100}){1,100}){1,10}"])
def test_regular_expressions_in_a_loop_have_a_limit_together(pattern: str) -> None:
    looping = f'lists.range(400).exists(i, {A}.k.matches("{pattern}"))'
    started = time.process_time()
    assert matches(looping, DEVICE) == SelectorError(RUN_TIME, OVER_LIMIT)
    assert time.process_time() - started < 2
    assert matches(f'{A}.k.matches("^x$") && matches({A}.k, "x")', DEVICE) is True, "each evaluation has its own"


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a && (b && c) && d.all(x, x && y)", ("a", "(b && c)", "d.all(x, x && y)")),
        ('"x && y" == a && b', ('"x && y" == a', "b")),
        ("a || b && c", ("a || b && c",)),
        ("a ? b && c : d", ("a ? b && c : d",)),
        ("a && b[?c]", ("a", "b[?c]")),
        ("a", ("a",)),
    ],
)
def test_the_conditions_of_an_expression_are_what_stands_between_its_outermost_ands(
    expression: str, parts: tuple[str, ...]
) -> None:
    assert conjuncts(expression) == parts
