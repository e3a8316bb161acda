"""Source code of an asset and text of its errors for events, without secrets and values of rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from tallyman.domain.account.redaction import NUMBERS_ONLY
from tallyman.domain.compiled.compiled_plan import CompiledPlan
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.engine.code.code_hash import YAML
from tallyman.engine.code.shown_code import Code, shown_code, without_secrets

_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z_.]+)\]")


def code_of_asset(asset: Asset, pipelines: Path) -> Code | None:
    """Return the asset's function, or the YAML file that declares it; None if neither can be
    read."""
    function = asset.written.function
    if isinstance(function, CompiledPlan) and function.code is not None:
        return shown_code("PYTHON", function.code)
    for path in sorted(p for p in pipelines.glob("*") if p.suffix in YAML):
        text = path.read_text(encoding="utf-8")
        if asset.name in _declared(text):
            return shown_code("YAML", text)
    return None


def _declared(text: str) -> set[str]:
    """Name the assets of a file. Compose it only: `{{NAME}}` cannot be the key of a dict."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    parts = root.value if isinstance(root, yaml.MappingNode) else []
    assets = [value for key, value in parts if key.value == "assets"]
    found = [part for part in assets if isinstance(part, yaml.MappingNode)]
    keys = [key for part in found for key, _ in part.value]
    return {key.value for key in keys if isinstance(key, yaml.ScalarNode)}


def message_of(error: Mapping[str, object], where: str) -> str:
    """Return message and hint of an error; if the message may contain values of rows, only its
    kind."""
    code, hint = str(error.get("code", "error")), str(error.get("hint") or "")
    message = str(error.get("message") or code)
    if code not in NUMBERS_ONLY:
        kind = _SPARK_CLASS.search(message)
        step = error.get("operation_order")
        at = "" if step is None else f" at step {step}"
        message = f"{where}: {code}{at}{f' [{kind.group(1)}]' if kind else ''}."
    return without_secrets(f"{message} {hint}".strip())
