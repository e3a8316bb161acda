"""Every place in the engine where rows or files leave our hands, found in the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tallyman.engine

ENGINE = Path(tallyman.engine.__file__).parent
MOVES = {
    "move_files",
    "rename",
    "replace",
    "link",
    "copyfile",
    "copyfileobj",
    "write_table",
    "write_text",
}
"""Calls that put a file somewhere; `replace` and `rename` only as functions of `os`."""
READS = {
    "segment.stage:Stage.live",
    "segment.stage:Stage.dropped",
    "segment.ended:EndedColumns.read",
    "segment.ended:EndedColumns.read_among",
    "files.parquet:table",
}
"""Functions through which the rows of a stage go on."""


def seams() -> set[str]:
    """`room.module:Class.function` for each function that writes rows, or moves files of them."""
    found = {
        f"{_module(file)}:{name}"
        for file in sorted(ENGINE.rglob("*.py"))
        for name, function in _functions(ast.parse(file.read_text(encoding="utf-8")))
        if any(map(_writes, ast.walk(function)))
    }
    return found | READS


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ENGINE).with_suffix("").parts)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            yield from ((f"{node.name}.{method.name}", method) for method in methods)


def _writes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        return node.value.attr == "write"  # rows.write.parquet, with any options between
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id in MOVES - {"rename", "replace"}
    if not isinstance(called, ast.Attribute) or called.attr not in MOVES:
        return False
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    return called.attr not in ("rename", "replace") or of == "os"
