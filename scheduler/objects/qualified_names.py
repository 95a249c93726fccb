"""The syntax of label keys, label values and resource names, with the API server's own error texts."""

from __future__ import annotations

import re
from collections.abc import Collection

from scheduler.objects.memo import is_long_text, memo

MAX_NAME_LENGTH = 63
MAX_SUBDOMAIN_LENGTH = 253

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_MARKS = "-_."
_WRONG_EDGES = tuple([f"\n{mark}" for mark in _MARKS] + [f"{mark}\n" for mark in _MARKS])
"""Of lines: a name neither begins nor ends with a mark."""
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@memo(4096, is_long_text)
def qualified_name_faults(name: str) -> tuple[str, ...]:
    """The faults of a label key or resource name, `[prefix/]name`. Empty if it is valid."""
    prefix, slash, rest = name.partition("/")
    faults: list[str] = []
    if slash:
        if "/" in rest:
            return (
                "a qualified name "
                + _NAME_RULE
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            )
        if not prefix:
            faults.append("prefix part must be non-empty")
        else:
            faults.extend(f"prefix part {fault}" for fault in subdomain_faults(prefix))
    else:
        rest = prefix
    if not rest:
        faults.append("name part must be non-empty")
    elif len(rest) > MAX_NAME_LENGTH:
        faults.append(f"name part must be no more than {MAX_NAME_LENGTH} bytes")
    if not _NAME.fullmatch(rest):
        faults.append(f"name part {_NAME_RULE}")
    return tuple(faults)


def subdomain_faults(text: str) -> tuple[str, ...]:
    """The faults of a DNS subdomain, such as the name of most objects."""
    faults: list[str] = []
    if len(text) > MAX_SUBDOMAIN_LENGTH:
        faults.append(f"must be no more than {MAX_SUBDOMAIN_LENGTH} bytes")
    if not _SUBDOMAIN.fullmatch(text):
        faults.append(_SUBDOMAIN_RULE)
    return tuple(faults)


@memo(4096, is_long_text)
def label_value_faults(text: str) -> tuple[str, ...]:
    """The faults of a label's value."""
    faults: list[str] = []
    if len(text) > MAX_NAME_LENGTH:
        faults.append(f"must be no more than {MAX_NAME_LENGTH} bytes")
    if text and not _NAME.fullmatch(text):
        faults.append(_VALUE_RULE)
    return tuple(faults)


def are_label_values(texts: Collection[str]) -> bool:
    """Whether none of them has a fault: for many at once, a tenth of the time that asking for each takes."""
    if len(max(texts, key=len, default="")) > MAX_NAME_LENGTH:
        return False
    text = "\n".join(["", *texts, ""])
    if not text.isascii() or text.count("\n") != len(texts) + 1 or any(edge in text for edge in _WRONG_EDGES):
        return False
    for mark in _MARKS:
        text = text.replace(mark, "")
    text = text.replace("\n", "")
    return text.isalnum() or not text


def are_qualified_names(names: Collection[str]) -> bool:
    """Whether none of them, label keys or resource names, has a fault, likewise."""
    parts = [name.partition("/") for name in names]
    rests = [rest if slash else name for name, slash, rest in parts]
    prefixes = {prefix for prefix, slash, _ in parts if slash}
    return all(rests) and are_label_values(rests) and not any(map(subdomain_faults, prefixes))
