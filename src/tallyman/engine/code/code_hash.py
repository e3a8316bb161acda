"""The content of a pipeline's Python files as one hash that ignores comments and formatting."""

from __future__ import annotations

import ast
import hashlib
import json
from functools import lru_cache
from pathlib import Path

from tallyman.engine.code.helper_modules import IMPORTED, helper_modules
from tallyman.engine.code.syntax import parsed

YAML = (".yaml", ".yml")
JSON = ".json"


def _python_in(folder: Path) -> list[list[object]]:
    files = sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.py"))
    files += [(f"{IMPORTED}{name}", path) for name, path in helper_modules(folder)]
    return [[name, _meaning(path.read_bytes())] for name, path in files]


@lru_cache(maxsize=100)
def _meaning(content: bytes) -> str:
    """Every asset asks again what its file means."""
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError):
        return hashlib.sha256(content).hexdigest()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(_constant(first.value), str):
                del node.body[0]
    return ast.dump(tree)


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def sha256_of(value: object) -> str:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()
