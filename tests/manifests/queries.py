"""What a PromQL expression asks for: series and labels. As far as our dashboard and alerts use the language."""

from __future__ import annotations

import re

_TEXT = re.compile(r'"[^"]*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
_WORD = re.compile(r"(?<![\w$:.])([a-zA-Z_:][a-zA-Z0-9_:]*)\b(?!\s*\()")
_RANGE = re.compile(r"\[[^\]]*\]")
_OPERATORS = frozenset({"and", "or", "unless", "by", "without", "on", "ignoring", "bool", "offset", "inf", "nan"})

ADDED_BY_PROMETHEUS = frozenset({"job", "pod", "instance", "namespace"})
"""Labels that every scraped series has, whatever the page says."""


def names(query: str) -> frozenset[str]:
    """Every series that is asked for."""
    bare = _RANGE.sub("", _GROUPING.sub("", re.sub(r"\{[^}]*\}", "", _TEXT.sub("", query))))
    return frozenset(word for word in _WORD.findall(bare) if word not in _OPERATORS)


def labels(query: str) -> frozenset[str]:
    """Every label that is matched or grouped by."""
    bare = _TEXT.sub('""', query)
    matched = {label for _, matchers in _SELECTOR.findall(bare) for label in _MATCHER.findall(matchers)}
    grouped = {label.strip() for group in _GROUPING.findall(bare) for label in group.split(",") if label.strip()}
    return frozenset(matched | grouped)
