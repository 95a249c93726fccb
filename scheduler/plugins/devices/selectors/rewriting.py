"""What Kubernetes' ``device`` variable does that plain CEL maps do not, written as function calls.

``device.attributes["d"]`` of a domain that the device has nothing under is an empty map, and
``device.attributes[?"d"]`` always has a value. The rewriting goes by tokens and leaves everything else as it is
written. It also finds out which attributes and capacities the expression can look at, so that devices which differ
elsewhere share its answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DOMAIN_FUNCTION = "kubernetesDomain"
RANGE_FUNCTION = "kubernetesRange"
"""``lists.range`` with a limit."""
MATCH_FUNCTION = "kubernetesMatches"
"""``matches`` with a limit."""
MAPS = ("attributes", "capacity")
FIELD_PREFIX = "device_"
"""Before the name of a field of ``device``: each of them is a variable of its own."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`]*`)
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW_TEXT = re.compile(r"""["'][^\\"']*["']""")


class Read(NamedTuple):
    """A value that an expression looks at: ``of`` is ``attributes`` or ``capacity``."""

    of: str
    domain: str
    name: str


class Rewritten(NamedTuple):
    expression: str
    reads: frozenset[Read] | None
    """All that it can look at besides the driver and allowMultipleAllocations; None: anything."""


class UnsupportedExpression(ValueError):
    """CEL that Kubernetes accepts and this scheduler does not."""


def conjuncts(expression: str) -> tuple[str, ...]:
    """The parts of an expression that are joined by ``&&`` at its top; the expression alone where there is only one."""
    depth = 0
    parts, start = [], 0
    tokens = list(_TOKEN.finditer(expression))
    for place, match in enumerate(tokens):
        text = match.group()
        if match.lastgroup == "other" and text in "([{":
            depth += 1
        elif match.lastgroup == "other" and text in ")]}":
            depth -= 1
        elif not depth and text in ("?", "|") and match.lastgroup == "other":
            # Both bind less than && does, so that its sides are no conditions of the whole.
            return (expression,)
        elif not depth and text == "&" and tokens[place + 1 : place + 2] and tokens[place + 1].group() == "&":
            parts.append(expression[start : match.start()].strip())
            start = match.end() + 1
    parts.append(expression[start:].strip())
    return tuple([part for part in parts if part.strip("&")])


def rewrite(expression: str) -> Rewritten:
    """The expression with variables for the fields of ``device`` that it reads. Raises UnsupportedExpression where it
    uses the names in a way that can't be kept apart."""
    tokens = [match for match in _TOKEN.finditer(expression) if match.lastgroup != "space"]
    texts = [match.group() for match in tokens]
    replaced: dict[int, str] = {}
    reads: set[Read] | None = set()
    for place in range(len(texts)):
        if texts[place : place + 2] == ["matches", "("]:
            replaced[place] = MATCH_FUNCTION
        if place and texts[place - 1] == ".":
            continue
        if texts[place].startswith(FIELD_PREFIX):
            raise UnsupportedExpression(f"a name that begins with {FIELD_PREFIX!r}")
        if texts[place : place + 4] == ["lists", ".", "range", "("]:
            replaced.update({place: "", place + 1: "", place + 2: RANGE_FUNCTION})
        if texts[place] != "device":
            continue
        if texts[place + 1 : place + 2] != ["."] or (place and texts[place - 1 : place + 2] == ["(", "device", ","]):
            raise UnsupportedExpression("the variable 'device' can be used only by its fields")
        replaced.update({place: FIELD_PREFIX + texts[place + 2], place + 1: "", place + 2: ""})
        if texts[place + 2] not in MAPS:
            continue
        reads = _map_use(texts, place, replaced, reads)
    parts: list[str] = []
    end = 0
    for place, match in enumerate(tokens):
        parts.append(expression[end : match.start()])
        parts.append(replaced.get(place, match.group()))
        end = match.end()
    parts.append(expression[end:])
    return Rewritten("".join(parts), None if reads is None else frozenset(reads))


def _map_use(texts: list[str], place: int, replaced: dict[int, str], reads: set[Read] | None) -> set[Read] | None:
    """Rewrite one ``device.attributes...``; what is read by now."""
    after = place + 3
    following = texts[after] if after < len(texts) else ""
    of = texts[place + 2]
    if following == "[":
        close = _matching(texts, after)
        is_optional = texts[after + 1] == "?"
        if is_optional:
            replaced[place] = "optional.of(" + replaced[place]
        replaced[after] = f".{DOMAIN_FUNCTION}("
        replaced[close] = "))" if is_optional else ")"
        if is_optional:
            replaced[after + 1] = ""
            return None
        if close == after + 2:
            return _value_use(texts, of, texts[after + 1], close + 1, reads)
        return None
    is_presence = texts[max(place - 2, 0) : place] == ["has", "("] and texts[after + 2 : after + 3] == [")"]
    if following == "." and not is_presence and texts[after + 2 : after + 3] != ["("] and texts[after + 1] != "?":
        domain = texts[after + 1].strip("`")
        replaced[after] = f".{DOMAIN_FUNCTION}("
        replaced[after + 1] = f'"{domain}")'
        return _value_use(texts, of, f'"{domain}"', after + 2, reads)
    if place >= 6 and texts[place - 6 : place - 3] == ["cel", ".", "bind"]:
        raise UnsupportedExpression(f"device.{of} as a whole can't be bound to a name")
    return None


def _value_use(texts: list[str], of: str, domain: str, place: int, reads: set[Read] | None) -> set[Read] | None:
    if reads is None or not _RAW_TEXT.fullmatch(domain):
        return None
    name = ""
    if texts[place : place + 1] == ["."] and place + 1 < len(texts):
        at = place + 2 if texts[place + 1] == "?" else place + 1
        is_call = texts[at + 1 : at + 2] == ["("]
        name = "" if is_call else texts[at].strip("`")
    elif texts[place : place + 1] == ["["] and texts[place + 2 : place + 3] == ["]"]:
        name = texts[place + 1][1:-1] if _RAW_TEXT.fullmatch(texts[place + 1]) else ""
    if not name:
        return None
    return reads | {Read(of, domain[1:-1], name)}


def _matching(texts: list[str], opening: int) -> int:
    depth = 0
    for place in range(opening, len(texts)):
        if texts[place] in "([{":
            depth += 1
        elif texts[place] in ")]}":
            depth -= 1
            if not depth:
                return place
    raise UnsupportedExpression("brackets do not match")
