"""``python -m tests.manifests.values_schema`` writes the chart's ``values.schema.json``: the part of the configuration.

The rest of it is written by hand. Of the configuration it has what its types say, so that Helm refuses a field that is
misspelt before anything is installed; what depends on several fields is for ``tandem check-config``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import inspect

from scheduler.config.durations import Duration
from scheduler.config.strict import DurationOrZero
from scheduler.config.tandem import LIMIT_RANGES, RENAMED, RETIRED, Breaker, Limits, TandemConfiguration
from scheduler.config.wire import StatedConfiguration, StatedProfile
from scheduler.objects.selector_fields import LabelSelector, SelectorExpression
from tests.manifests.documents import ROOT

FILE = ROOT / "charts" / "tandem-scheduler" / "values.schema.json"
DURATION: Final = r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
Schema = dict[str, Any]


class _Definitions:
    """The Structs that are met, each once, under their names."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def of(self, expected: inspect.Type) -> Schema:
        """Null counts as absent, wherever ``decode_strictly`` takes it for that."""
        match expected:
            case inspect.Metadata():
                return self.of(expected.type)
            case inspect.StructType():
                return self._struct(expected)
            case inspect.UnionType():
                (choice,) = [one for one in expected.types if not isinstance(one, inspect.NoneType)]
                return self.of(choice)
            case inspect.VarTupleType():
                return {"type": ["array", "null"], "items": self.of(expected.item_type)}
            case inspect.DictType():
                return {"type": ["object", "null"], "additionalProperties": self.of(expected.value_type)}
            case inspect.AnyType():
                return {}
            case inspect.BoolType():
                return {"type": ["boolean", "null"]}
            case inspect.IntType():
                ends = {"minimum": expected.ge, "maximum": expected.le}
                return {"type": ["integer", "null"], **{key: end for key, end in ends.items() if end is not None}}
            case inspect.FloatType():
                return {"type": ["number", "null"]}
            case inspect.StrType() | inspect.BytesType():
                return {"type": ["string", "null"]}
            case inspect.EnumType():
                return {"enum": [*[one.value for one in expected.cls], None]}
            case inspect.CustomType() if issubclass(expected.cls, Duration):
                text = {"type": ["string", "null"], "pattern": DURATION}
                return {"anyOf": [text, {"const": 0}]} if issubclass(expected.cls, DurationOrZero) else text
        raise NotImplementedError(expected)

    def _struct(self, expected: inspect.StructType) -> Schema:
        name = expected.cls.__name__
        if name not in self.found:
            self.found[name] = {"type": ["object", "null"], "additionalProperties": False, "properties": {}}
            fields = {field.encode_name: self.of(field.type) for field in expected.fields}
            self.found[name]["properties"] = fields
        return {"$ref": f"#/definitions/{name}"}


def _definitions() -> dict[str, Schema]:
    made = _Definitions()
    for document in (StatedConfiguration, TandemConfiguration):
        made.of(inspect.type_info(document))
    found = made.found
    for document in (StatedConfiguration, TandemConfiguration):
        # The chart states them.
        found[document.__name__]["properties"] |= {"apiVersion": False, "kind": False}
    found[StatedConfiguration.__name__] |= {"type": "object", "required": ["profiles"]}
    found[StatedConfiguration.__name__]["properties"]["profiles"] |= {"type": "array", "minItems": 1}
    found[StatedProfile.__name__] |= {"type": "object", "required": ["schedulerName"]}
    found[LabelSelector.__name__] |= {"type": "object", "minProperties": 1}
    found[SelectorExpression.__name__]["required"] = ["key", "operator"]
    found[Breaker.__name__]["properties"]["rounds"]["minimum"] = 0
    limits = found[Limits.__name__]["properties"]
    for field in inspect.type_info(Limits).fields:  # type: ignore[attr-defined]  # of a Struct
        low, high = LIMIT_RANGES[field.name]
        limits[field.encode_name] |= {"minimum": low, "maximum": high}
    sections = found[TandemConfiguration.__name__]["properties"]
    for section, old in (*RENAMED, *RETIRED):
        name = sections[section]["$ref"].rpartition("/")[2]
        found[name]["properties"][old] = found[name]["properties"].get(RENAMED.get((section, old), ""), {})
    return found


def with_configuration(schema: Schema) -> Schema:
    """The schema of the values, with the configuration's part as the types have it."""
    configuration = {
        "type": "object",
        "additionalProperties": False,
        "required": ["kubeScheduler"],
        "properties": {
            "kubeScheduler": {"$ref": f"#/definitions/{StatedConfiguration.__name__}"},
            "tandem": {"$ref": f"#/definitions/{TandemConfiguration.__name__}"},
        },
    }
    properties = {**schema["properties"], "configuration": configuration}
    return {**schema, "properties": properties, "definitions": _definitions()}


def written() -> str:
    """The whole file."""
    return json.dumps(with_configuration(json.loads(FILE.read_text())), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
