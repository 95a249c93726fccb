"""The syntax tree of a compiled expression, as the engine serializes it: ``cel.expr.ParsedExpr`` of cel-spec."""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from scheduler.plugins.devices.selectors.rewriting import UnsupportedExpression

_PACKAGE = "cel.expr"
_FIELD = descriptor_pb2.FieldDescriptorProto

_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "int": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
}

_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "ParsedExpr": ((2, "expr", "Expr"),),
    "Constant": ((3, "int64_value", "int"), (6, "string_value", "string"), (7, "bytes_value", "bytes")),
    "Ident": ((1, "name", "string"),),
    "Select": ((1, "operand", "Expr"),),
    "Call": ((1, "target", "Expr"), (2, "function", "string"), (3, "args", "Expr*")),
    "List": ((1, "elements", "Expr*"),),
    "Entry": ((3, "map_key", "Expr"), (4, "value", "Expr")),
    "Struct": ((2, "entries", "Entry*"),),
    "Comprehension": (
        (1, "iter_var", "string"),
        (8, "iter_var2", "string"),
        (2, "iter_range", "Expr"),
        (3, "accu_var", "string"),
        (4, "accu_init", "Expr"),
        (5, "loop_condition", "Expr"),
        (6, "loop_step", "Expr"),
        (7, "result", "Expr"),
    ),
    "Expr": (
        (3, "const_expr", "Constant"),
        (4, "ident_expr", "Ident"),
        (5, "select_expr", "Select"),
        (6, "call_expr", "Call"),
        (7, "list_expr", "List"),
        (8, "struct_expr", "Struct"),
        (9, "comprehension_expr", "Comprehension"),
    ),
}
"""Message → (number, name, type) of the fields that are read; ``*``: repeated. Others are skipped."""


def tree_of(serialized: bytes) -> Any:
    """The expression of ``Expression.serialize()``, compiled without a check of types. Raises UnsupportedExpression for
    one that nests too deeply to be read."""
    wrapped = any_pb2.Any.FromString(serialized)
    try:
        return _PARSED.FromString(wrapped.value).expr
    except DecodeError as error:
        raise UnsupportedExpression("too many expressions in each other") from error


def _parsed_expression() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="cel/expr/syntax.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for number, name, written in fields:
            kind = written.removesuffix("*")
            is_message = kind in _MESSAGES
            declared.field.add(
                name=name,
                number=number,
                type=_FIELD.TYPE_MESSAGE if is_message else _SCALARS[kind],
                type_name=f".{_PACKAGE}.{kind}" if is_message else None,
                label=_FIELD.LABEL_REPEATED if written.endswith("*") else _FIELD.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ParsedExpr"))


_PARSED = _parsed_expression()
