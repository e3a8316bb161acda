"""Modules of the user's own that a pipeline imports: they decide what it does, like its files.

Installed packages are left out, because a manifest names them with their versions. A package that
is installed from its sources for editing is the user's own.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

OURS = frozenset({"tallyman"})

IMPORTED = "import "
"""A prefix of the name of a module outside of the folder, in hashes."""
_one_at_a_time = Lock()
"""Python 3.11 fails when two threads make a tree at once, and what is warned of is shared."""


def helper_modules(folder: Path) -> list[tuple[str, Path]]:
    """List name and path of each file that the Python files of the folder import, directly or
    through one another, and that is neither in the folder nor installed.
    """
    found: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = list(folder.rglob("*.py"))
    while waiting:
        for module in _imports(waiting.pop()):
            if module in seen:
                continue
            seen.add(module)
            for name, path in _files(module):
                if not path.is_relative_to(folder) and name not in found:
                    found[name] = path
                    waiting.append(path)
    return sorted(found.items())


def _imports(path: Path) -> list[str]:
    try:
        return _imported(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


@lru_cache(maxsize=1_000)
def _imported(content: bytes) -> list[str]:
    """List the first part of the name of every imported module. Every asset asks again."""
    found: dict[str, None] = {}
    for node in ast.walk(parsed(content)):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        found |= dict.fromkeys(name.partition(".")[0] for name in names)
    return list(found)


def parsed(content: bytes) -> ast.Module:
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content)


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a module or package, by their names in it."""
    if module in sys.stdlib_module_names or module in OURS:
        return
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not places and spec.origin and spec.origin.endswith(".py"):
        path = Path(spec.origin)
        if not _installed(path):
            yield path.name, path
    for place in places:
        if not _installed(place):
            for path in sorted(place.rglob("*.py")):
                yield f"{module}/{path.relative_to(place).as_posix()}", path


def _installed(path: Path) -> bool:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    resolved = path.resolve()
    if "site-packages" in resolved.parts or "dist-packages" in resolved.parts:
        return True
    return any(resolved.is_relative_to(sysconfig.get_path(kind)) for kind in kinds)
