"""The content of a pipeline's files as one hash that ignores comments and formatting."""

from __future__ import annotations

import ast
import hashlib
import json
from functools import lru_cache
from pathlib import Path

import yaml

from tallyman.engine.code.helper_modules import IMPORTED, helper_modules
from tallyman.engine.code.syntax import parsed

YAML = (".yaml", ".yml")
JSON = ".json"
_NOT_TEXT = frozenset({"", "~", "null", "true", "false"})
"""Scalars that mean something else in YAML when they are quoted."""


def code_of(folder: Path) -> str:
    """Hash everything that declares the pipeline, without comments and docstrings."""
    hashes = {JSON: _json_hash, **dict.fromkeys(YAML, _yaml_hash)}
    written = [path for path in folder.glob("*") if path.suffix in hashes and path.is_file()]
    return sha256_of(
        _python_in(folder) + sorted([p.name, hashes[p.suffix](p.read_bytes())] for p in written)
    )


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


def _yaml_hash(content: bytes) -> str:
    """Hash the events of a YAML file; aliases are not expanded."""
    try:
        events = [_event(event) for event in yaml.parse(content, Loader=yaml.BaseLoader)]
    except (yaml.YAMLError, RecursionError):
        return hashlib.sha256(content).hexdigest()
    return sha256_of(events)


def _json_hash(content: bytes) -> str:
    try:
        return sha256_of(json.loads(content))
    except (ValueError, RecursionError):
        return hashlib.sha256(content).hexdigest()


def _event(event: yaml.Event) -> list[object]:
    kind, anchor, tag = type(event).__name__, *(getattr(event, n, None) for n in ("anchor", "tag"))
    if not isinstance(event, yaml.ScalarEvent):
        return [kind, anchor, tag]
    plain = event.style is None and event.value.lower() in _NOT_TEXT
    return [kind, anchor, tag, event.value, plain]


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def sha256_of(value: object) -> str:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()
