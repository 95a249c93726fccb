"""Values of Kubernetes' own CEL types, as messages that CEL can compare but do nothing else with.

Each value has a kind and a canonical text; equal values have equal texts. A message has no size, no order, no sum and
no text of its own in CEL, so that everything Kubernetes does not define for these types stays an error.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from scheduler.objects.quantity import NANO, parse

MESSAGE = "kubernetes.Value"

QUANTITY = "kubernetes.Quantity"
SEMVER = "kubernetes.Semver"
IP = "net.IP"
CIDR = "net.CIDR"
URL = "kubernetes.URL"


def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes/value.proto", package="kubernetes", syntax="proto3")
    message = file.message_type.add(name="Value")
    for number, name in enumerate(("kind", "text"), start=1):
        message.field.add(
            name=name,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _pool()
Value: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName(MESSAGE))


# --- quantities -------------------------------------------------------------------------------------------------------


def quantity(written: str | int | float) -> Any:
    """A quantity as a CEL value. Raises InvalidQuantity."""
    return quantity_of(parse(written))


def quantity_of(nanos: int) -> Any:
    return Value(kind=QUANTITY, text=str(nanos))


def nanos_of(value: Any) -> int:
    return int(value.text)


def whole(nanos: int) -> int | None:
    """The quantity as an int64, None where it is none."""
    units, rest = divmod(nanos, NANO)
    return None if rest or not -(2**63) <= units < 2**63 else units


# --- versions ---------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_MAX_NUMBER = 2**64 - 1


class Version(NamedTuple):
    """A semantic version without its build metadata, which counts in no comparison."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[tuple[bool, int, str], ...]
    """Numbers come before words."""

    @property
    def order(self) -> tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]:
        """A release comes after its pre-releases."""
        return self.major, self.minor, self.patch, not self.pre_release, self.pre_release


def parse_version(written: str, is_lenient: bool = False) -> Version:
    """The parts of a semantic version. ``is_lenient``: a leading ``v``, missing parts and leading zeros are allowed.
    Raises ValueError."""
    if not written:
        raise ValueError("Version string empty")
    core = written
    if is_lenient:
        core = core.removeprefix("v")
    core, _, build = core.partition("+")
    core, dash, pre_release = core.partition("-")
    parts = core.split(".")
    if is_lenient:
        parts = [part.lstrip("0") or "0" if _DIGITS.fullmatch(part) else part for part in parts]
        parts += ["0"] * (3 - len(parts))
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    numbers = []
    for part, name in zip(parts, ("major", "minor", "patch"), strict=True):
        if not _NUMBER.fullmatch(part) or int(part) > _MAX_NUMBER:
            raise ValueError(f"Invalid character(s) found in {name} number {part!r}")
        numbers.append(int(part))
    if (dash and not pre_release) or ("+" in written and not build):
        raise ValueError("Prerelease or build meta data is empty")
    for identifier in build.split(".") if build else ():
        if not _IDENTIFIER.fullmatch(identifier):
            raise ValueError(f"Invalid character(s) found in build meta data {identifier!r}")
    words = tuple(_word(word) for word in pre_release.split(".")) if pre_release else ()
    return Version(numbers[0], numbers[1], numbers[2], words)


def _word(word: str) -> tuple[bool, int, str]:
    if not _IDENTIFIER.fullmatch(word):
        raise ValueError(f"Invalid character(s) found in prerelease {word!r}")
    if _DIGITS.fullmatch(word):
        if not _NUMBER.fullmatch(word):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {word!r}")
        return False, int(word), ""
    return True, 0, word


def semver(written: str, is_lenient: bool = False) -> Any:
    """A semantic version as a CEL value. Raises ValueError."""
    version = parse_version(written, is_lenient)
    text = f"{version.major}.{version.minor}.{version.patch}"
    if version.pre_release:
        text += "-" + ".".join(word if is_word else str(number) for is_word, number, word in version.pre_release)
    return Value(kind=SEMVER, text=text)


def version_of(value: Any) -> Version:
    return parse_version(value.text)
