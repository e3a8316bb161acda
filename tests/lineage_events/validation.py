"""Whether an event is one: by the published JSON Schemas of OpenLineage, and ours.

`published/` holds the constraints of the schemas as OpenLineage publishes them (types, required
fields, formats, enums), in the versions that the events name. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from referencing import Registry, Resource

PUBLISHED = Path(__file__).parent / "published"
EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
OURS = ("TallymanErrorsFacet", "TallymanFailureFacet", "TallymanLedgerFacet", "TallymanRunFacet")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
FORMATS = FormatChecker(["uuid"])


@FORMATS.checks("date-time", raises=ValueError)
def _date_time(value: object) -> bool:
    """RFC 3339. The checker that jsonschema brings is silent without a package more."""
    if not isinstance(value, str):
        return True
    return bool(INSTANT.fullmatch(value)) and datetime.fromisoformat(value) is not None


@FORMATS.checks("uri", raises=ValueError)
def _uri(value: object) -> bool:
    if not isinstance(value, str):
        return True
    found = urlsplit(value)
    return bool(found.scheme and (found.netloc or found.path)) and not re.search(r"\s", value)


@cache
def _registry() -> Registry[Any]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(PUBLISHED.glob("*.json"))]
    ours = resources.files("tallyman.control.openlineage").joinpath("schemas")
    texts += [ours.joinpath(f"{name}.json").read_text(encoding="utf-8") for name in OURS]
    schemas = [json.loads(text) for text in texts]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    return Registry().with_resources([(s["$id"], Resource.from_contents(s)) for s in schemas])


@cache
def _validator(address: str) -> Draft202012Validator:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": address}
    return Draft202012Validator(schema, registry=_registry(), format_checker=FORMATS)


def valid(event: dict[str, Any]) -> None:
    """ValidationError that names the place. A facet whose schema is not known here is no facet."""
    _validator(EVENT).validate(event)
    _validator(event["schemaURL"]).validate(event)
    for place, facet in facets(event):
        try:
            _validator(facet["_schemaURL"]).validate(facet)
        except ValidationError as error:
            error.add_note(f"in {place}")
            raise


def facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every facet, and where it stands."""
    holders = [("run", event["run"]), ("job", event["job"])]
    holders += [(f"inputs[{n}]", one) for n, one in enumerate(event.get("inputs", ()))]
    holders += [(f"outputs[{n}]", one) for n, one in enumerate(event.get("outputs", ()))]
    for where, holder in holders:
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in holder.get(kind, {}).items():
                yield f"{where}.{kind}.{name}", facet
