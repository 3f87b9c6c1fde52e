"""Converts Protobuf descriptors to `.proto` text, as a schema registry stores it, and back.

It reads what describes messages: packages, imports of the well-known types, messages, enums, oneofs, maps, labels.
Options, reserved numbers, services and extensions are ignored. Raises ValueError.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from headrace.formats.protobuf.schema import KNOWN, SCALARS, add_field, add_optional

_TOKEN = re.compile(
    r"""\s*(?://[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\.?[A-Za-z_][\w.]*|-?\d[\w.+-]*|[{}\[\]()<>=;,:-]))""",
    re.DOTALL,
)
_REPEATED = FieldDescriptorProto.LABEL_REPEATED
_TYPE_NAMES = {number: name for name, number in SCALARS.items()}


# -- writing --------------------------------------------------------------------------------------------------------


def format_proto(file: FileDescriptorProto) -> str:
    lines = ['syntax = "proto3";']
    if file.package:
        lines.append(f"package {file.package};")
    lines += [f'import "{path}";' for path in file.dependency]
    for message in file.message_type:
        lines += ["", *_message_lines(message)]
    return "\n".join(lines) + "\n"


def _message_lines(message: DescriptorProto) -> list[str]:
    entries = {inner.name: inner for inner in message.nested_type if inner.options.map_entry}
    lines = [f"message {message.name} {{"]
    lines += [f"  {_field_line(field, entries)}" for field in message.field]
    for inner in message.nested_type:
        if inner.name not in entries:
            lines += ["", *(f"  {line}" for line in _message_lines(inner))]
    # Types nested in a map's value would be lost with the entry, so they move to the enclosing message.
    for entry in entries.values():
        for inner in entry.nested_type:
            lines += ["", *(f"  {line}" for line in _message_lines(inner))]
    return [*lines, "}"]


def _field_line(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    if field.type_name in entries:
        key, value = entries[field.type_name].field
        return f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number};"
    label = "repeated " if field.label == _REPEATED else "optional " if field.proto3_optional else ""
    return f"{label}{_type(field)} {field.name} = {field.number};"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or _TYPE_NAMES[field.type]


# -- reading --------------------------------------------------------------------------------------------------------


def parse_proto(text: str) -> FileDescriptorProto:
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.is_proto2 = False

    def file(self) -> FileDescriptorProto:
        file = FileDescriptorProto(name="schema.proto", syntax="proto3")
        while self.at < len(self.tokens):
            word = self.next()
            if word == "message":
                self.message(file.message_type.add())
            elif word == "enum":
                self.enum(file.enum_type.add())
            elif word == "package":
                file.package = self.next()
                self.skip()
            elif word == "import":
                self.dependency(file)
            elif word != ";":
                self.statement(file, word)
        if not file.message_type:
            raise ValueError("the schema has no message")
        return file

    def statement(self, file: FileDescriptorProto, word: str) -> None:
        start = self.at
        self.skip()
        if word == "syntax" and "proto2" in self.tokens[start + 1]:
            file.syntax, self.is_proto2 = "proto2", True

    def dependency(self, file: FileDescriptorProto) -> None:
        path = self.next()
        if path in ("public", "weak"):
            path = self.next()
        if path[1:-1] in KNOWN:
            file.dependency.append(path[1:-1])
        self.skip()

    def message(self, message: DescriptorProto) -> None:
        message.name = self.next()
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "message":
                self.message(message.nested_type.add())
            elif word == "enum":
                self.enum(message.enum_type.add())
            elif word == "oneof":
                self.oneof(message)
            elif word in ("option", "reserved", "extensions", "extend"):
                self.skip()
            elif word != ";":
                self.field(message, word)

    def enum(self, enum: Any) -> None:
        enum.name = self.next()
        self.expect("{")
        while (word := self.next()) != "}":
            if word in ("option", "reserved"):
                self.skip()
            elif word != ";":
                self.expect("=")
                enum.value.add(name=word, number=int(self.next(), 0))
                self.skip()

    def oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self.next())
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "option":
                self.skip()
            elif word != ";":
                self.field(message, word).oneof_index = index

    def field(self, message: DescriptorProto, word: str) -> Any:
        if word == "map":
            return self.map(message)
        kind = self.next() if word in ("repeated", "optional", "required") else word
        name = self.next()
        self.expect("=")
        field = add_field(message, name, kind, int(self.next(), 0), repeated=word == "repeated")
        self.skip()
        if word == "optional" and not self.is_proto2:  # proto2 fields have presence by default
            add_optional(message, field)
        return field

    def map(self, message: DescriptorProto) -> Any:
        self.expect("<")
        key = self.next()
        self.expect(",")
        value = self.next()
        self.expect(">")
        name = self.next()
        self.expect("=")
        entry = message.nested_type.add(name=f"{name}__Entry")
        add_field(entry, "key", key, 1)
        add_field(entry, "value", value, 2)
        field = add_field(message, name, entry.name, int(self.next(), 0), repeated=True)
        self.skip()
        return field

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise ValueError("the text ends unexpectedly")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        actual = self.next()
        if actual != token:
            raise ValueError(f'"{token}" is missing before "{actual}"')

    def skip(self) -> None:
        """Skip to the end of the statement: a semicolon, or the brackets it opens."""
        depth = 0
        while (token := self.next()) != ";" or depth:
            depth += (token in "{[(<") - (token in "}])>")
            if token == "}" and not depth:
                return


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"{text[at : at + 20]!r} is not valid")
        at = match.end()
        if match[1]:
            tokens.append(match[1])
    return tokens
