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
from importlib.util import find_spec
from pathlib import Path

OURS = frozenset({"tallyman"})


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


def _imports(path: Path) -> Iterator[str]:
    """Yield the first part of the name of every imported module."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        yield from (name.partition(".")[0] for name in names)


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
