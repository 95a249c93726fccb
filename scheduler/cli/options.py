"""The options of a command: the fields of a dataclass, read by argparse.

A dataclass that several commands inherit from declares their common options once; its ``SECTION`` is the heading under
which the help page shows them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from msgspec import Struct

from scheduler.config.suggestions import did_you_mean
from scheduler.errors import ConfigurationError, Fault

_DECLARED: Final = "declared"


class WrongOptions(ConfigurationError):
    """Words that are no options of the command, or values that an option does not take."""


class Takes(Enum):
    """What follows on the command line."""

    ARGUMENT = "argument"
    """Nothing: the word itself is the value."""
    VALUE = "value"
    VALUES = "values"
    """A value, each time that the option is given."""
    SWITCH = "switch"
    EITHER = "either"
    """A switch that also exists as ``--no-…``."""


class Declared(Struct, frozen=True):
    """How an option, or an argument, is written. ``reads`` raises ValueError, whose text says what is expected."""

    takes: Takes
    flags: tuple[str, ...]
    metavar: str
    help: str
    reads: Callable[[str], Any] = str
    shows_default: bool = False


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a command that has none; the base of all others."""

    SECTION: ClassVar[str] = "Options"


Read = TypeVar("Read", bound=Options)


def argument(metavar: str, help: str, *, default: Any = MISSING, reads: Callable[[str], Any] = str) -> Any:
    """A word without a flag; required if it has no default."""
    declared = Declared(Takes.ARGUMENT, (), metavar, help, reads)
    return field(default=default, metadata={_DECLARED: declared})


def option(
    *flags: str, metavar: str, help: str, default: Any = "", reads: Callable[[str], Any] = str, shows: bool = False
) -> Any:
    """An option with a value. ``shows``: the help page shows its default."""
    return field(default=default, metadata={_DECLARED: Declared(Takes.VALUE, flags, metavar, help, reads, shows)})


def options(*flags: str, metavar: str, help: str) -> Any:
    """An option that may be given several times: a tuple of texts."""
    return field(default=(), metadata={_DECLARED: Declared(Takes.VALUES, flags, metavar, help)})


def switch(*flags: str, help: str) -> Any:
    """True if it is given."""
    return field(default=False, metadata={_DECLARED: Declared(Takes.SWITCH, flags, "", help)})


def either(flag: str, help: str) -> Any:
    """True for ``--flag``, False for ``--no-flag``, None if neither is given."""
    return field(default=None, metadata={_DECLARED: Declared(Takes.EITHER, (flag,), "", help)})


def whole(at_least: int, at_most: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""
    bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if value < at_least or (at_most is not None and value > at_most):
            raise ValueError(f'"{text}" must be a whole number {bounds}')
        return value

    return read


def seconds(at_least: float) -> Callable[[str], float]:
    """A reader of numbers of seconds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not at_least <= value < float("inf"):
            raise ValueError(f'"{text}" must be a number of seconds, at least {at_least:g}')
        return value

    return read


def one_of(kind: type[Enum]) -> Callable[[str], Any]:
    """A reader of an enum's values."""
    known = [str(one.value) for one in kind]

    def read(text: str) -> Any:
        if text not in known:
            raise ValueError(f'"{text}" must be one of {", ".join(known)}{did_you_mean(text, known)}')
        return kind(text)

    return read


def declared_by(kind: type[Options]) -> Iterator[tuple[str, Any, Declared]]:
    """Name, default and declaration of each option, the inherited ones first."""
    for each in fields(kind):
        yield each.name, each.default, each.metadata[_DECLARED]


def read_options(kind: type[Read], words: Sequence[str]) -> Read:
    """The words after a command as its options. Raises WrongOptions."""
    parser = _Parser(add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    arguments = []
    for name, default, declared in declared_by(kind):
        if declared.takes is Takes.ARGUMENT:
            arguments.append((name, default is MISSING, declared))
        else:
            parser.add_argument(*declared.flags, dest=name, **_keywords(declared))
    try:
        found, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise WrongOptions([Fault(error.argument_name or "", error.message)]) from error
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(found).items()}
    known = [flag for _, _, declared in declared_by(kind) for flag in declared.flags]
    return kind(**values, **_arguments(arguments, _plain(rest, known)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongOptions([Fault("", message)])


def _keywords(declared: Declared) -> dict[str, Any]:
    if declared.takes is Takes.SWITCH:
        return {"action": "store_true"}
    if declared.takes is Takes.EITHER:
        return {"action": argparse.BooleanOptionalAction}
    action = "append" if declared.takes is Takes.VALUES else "store"
    return {"action": action, "type": _reader(declared.reads)}


def _reader(reads: Callable[[str], Any]) -> Callable[[str], Any]:
    """The reader for argparse, which would replace a ValueError's text by its own."""

    def read(text: str) -> Any:
        try:
            return reads(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _plain(words: list[str], known: list[str]) -> list[str]:
    """The words that are no options: those after ``--`` may begin with a dash. Raises WrongOptions."""
    end = words.index("--") if "--" in words else len(words)
    for word in words[:end]:
        if word.startswith("-") and word != "-":
            flag = word.partition("=")[0]
            # kubectl's way to ask for JSON.
            meant = "--json" if flag in ("-o", "--output") and "--json" in known else flag
            raise WrongOptions([Fault("", f"No such option: {flag}{did_you_mean(meant, known)}")])
    return words[:end] + words[end + 1 :]


def _arguments(declared: list[tuple[str, bool, Declared]], words: list[str]) -> dict[str, Any]:
    if len(words) > len(declared):
        raise WrongOptions([Fault("", f'Unexpected argument: "{words[len(declared)]}"')])
    found = {}
    for place, (name, is_required, one) in enumerate(declared):
        if place < len(words):
            try:
                found[name] = one.reads(words[place])
            except ValueError as error:
                raise WrongOptions([Fault(one.metavar, str(error))]) from error
        elif is_required:
            raise WrongOptions([Fault("", f"Missing argument: {one.metavar}")])
    return found
