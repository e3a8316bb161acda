"""Load a project's pipelines: the sources, tables and assets that its files declare."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.compile.fresh_imports import AsWritten
from tallyman.domain.compiled import form
from tallyman.domain.pipeline.declarations import Declarations, declaring
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.code.kept_files import JSON, YAML
from tallyman.errors import DefinitionError, Problem, TallymanError
from tallyman.errors.wording import described
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.control.compile import yaml_pipeline
else:
    yaml_pipeline = OnDemand("tallyman.control.compile.yaml_pipeline")


def load(folder: Path) -> Pipeline:
    """Read every pipeline file of the folder, Python, YAML or JSON; collect what they declare."""
    declared, problems = collected(folder)
    if problems:
        raise DefinitionError(problems)
    return Pipeline.of(declared)


def collected(folder: Path) -> tuple[Declarations, list[Problem]]:
    """Collect what the files of the folder declare, and the mistakes of those that cannot be
    read."""
    declared, problems = Declarations(), list[Problem]()
    if not folder.is_dir():
        return declared, [Problem(str(folder.name), "the pipelines folder does not exist")]
    for path in sorted(folder.glob("*")):
        try:
            found = declared_in(path)
            declared += found
            declared.places |= found.places
        except DefinitionError as error:
            problems += error.problems
    if not declared and not problems:
        where = f"{folder.name}/*.py, *.yaml, *.json"
        problems = [Problem(where, "no source and no asset is declared")]
    return declared, problems


def declared_in(path: Path) -> Declarations:
    """Return what one file declares, in its order; nothing if it is no pipeline file."""
    if path.suffix == ".py":
        return _imported(path)
    if path.suffix in YAML and path.is_file():
        return yaml_pipeline.declared_in(path)
    if path.suffix == JSON and path.is_file():
        return form.read_text(path.read_bytes(), _shown(path))
    return Declarations()


def _imported(path: Path) -> Declarations:
    # Equal names of files in two folders are two modules, also in the process of a test.
    folder = hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]
    name = f"tallyman_pipelines_{folder}_{path.stem}"
    loader = AsWritten(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with declaring() as declared:
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except TallymanError as error:
            raise _mistake(path, str(error), error) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"while importing {_shown(path)}") from None
        except SystemExit as error:
            reason = f"the file ended the program: SystemExit({error.code!r})"
            raise _mistake(path, f"cannot be imported: {reason}", error) from error
        except BaseException as error:  # whatever a file raises must not end a command as a success
            raise _mistake(path, f"cannot be imported: {described(error)}", error) from error
    return declared


def _mistake(path: Path, message: str, error: BaseException) -> DefinitionError:
    return DefinitionError(
        [Problem(path.name, message, file=_shown(path), line=_line(path, error))]
    )


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _line(path: Path, error: BaseException) -> int | None:
    """Return the line of the file at which the error came up."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None
