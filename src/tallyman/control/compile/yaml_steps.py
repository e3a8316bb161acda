"""Steps of a YAML pipeline, converted to calls of Frame's methods.

So YAML and Python make the same plan, and a mistake that Frame finds is reported at its step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallyman.control.compile.yaml_loader import Mapped
from tallyman.control.compile.yaml_piece import ALIKE, YamlPiece, condition, expressions, text
from tallyman.domain.definition.frame import ALTERNATIVES, Frame
from tallyman.domain.definition.plan import numbers
from tallyman.errors import TallymanError
from tallyman.errors.wording import nearest

Inputs = Mapping[str, Frame]
REFERENCE = ("from", "where", "steps")


@dataclass(frozen=True, slots=True)
class Key:
    """One value that a verb takes: its kind, and the parameter of Frame's method it is passed
    to."""

    kind: Callable[[YamlPiece], object]
    parameter: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: `short` is the key that a value without keys stands for; `call` replaces Frame's
    method if its name or signature differs."""

    keys: Mapping[str, Key]
    short: str | None = None
    call: Callable[..., Frame] | None = None


@dataclass(frozen=True, slots=True)
class YamlReference:
    """Another input, optionally with steps of its own."""

    input: str
    steps: tuple[YamlStep, ...] = ()

    def frame(self, inputs: Inputs) -> Frame:
        return apply(self.steps, inputs[self.input], inputs)


@dataclass(frozen=True, slots=True)
class YamlStep:
    method: Callable[..., Frame]
    given: Mapping[str, object]

    def onto(self, frame: Frame, inputs: Inputs) -> Frame:
        values = {name: _filled(value, inputs) for name, value in self.given.items()}
        return self.method(frame, **values)


def _filled(value: object, inputs: Inputs) -> object:
    """Replace each reference in the value by a Frame."""
    match value:
        case YamlReference():
            return value.frame(inputs)
        case tuple():
            return tuple(_filled(each, inputs) for each in value)
        case dict():
            return {name: _filled(each, inputs) for name, each in value.items()}
    return value


def apply(steps: Sequence[YamlStep], frame: Frame, inputs: Inputs) -> Frame:
    for step in steps:
        frame = step.onto(frame, inputs)
    return frame


class Used(dict[str, Frame]):
    """A mapping that creates a Frame for every name it is asked for, in that order."""

    def __missing__(self, name: str) -> Frame:
        return self.setdefault(name, Frame(name))


# ---- reading ---------------------------------------------------------------------------------


def read_steps(piece: YamlPiece, start: str, verbs: Mapping[str, Verb]) -> tuple[YamlStep, ...]:
    """Read all steps, and record all mistakes with their paths; Frame's own checks run on each
    step."""
    steps: list[YamlStep] = []
    frame, inputs, before = Frame(start), Used(), piece.mistakes
    for there, step in filter(None, (_step(item, verbs) for item in piece.items())):
        steps.append(step)
        try:
            frame = step.onto(frame, inputs)
        except TallymanError as error:
            there.fail(str(error))
    if piece.mistakes == before:
        try:
            numbers(frame)
        except TallymanError as error:
            piece.fail(str(error))
    return tuple(steps)


def _step(piece: YamlPiece, verbs: Mapping[str, Verb]) -> tuple[YamlPiece, YamlStep] | None:
    """Read one step. Also return the part with its verb, for messages."""
    before = piece.mistakes
    if not isinstance(piece.node, Mapped) or len(piece.node.entries) != 1:
        piece.fail(f"expected one verb and its values, found {_shown(piece)}")
        return None
    [(name, given)] = piece.entries().items()
    if name not in verbs:
        refused = ALTERNATIVES.get(name)
        message = f"{name} cannot be accounted for row by row. {refused}"
        given.fail(
            message if refused else "unknown step", None if refused else nearest(name, verbs, ALIKE)
        )
        return None
    verb = verbs[name]
    values = read_keys(given, _by_key(given, verb), verb.keys)
    if piece.mistakes > before:
        return None
    return given, YamlStep(verb.call or getattr(Frame, name), values)


def _shown(piece: YamlPiece) -> str:
    node = piece.node
    if isinstance(node, Mapped) and node.entries:
        return "the keys " + ", ".join(repr(key.text) for key, _ in node.entries)
    return piece.found()


def _by_key(piece: YamlPiece, verb: Verb) -> dict[str, YamlPiece]:
    """Return the parts of a verb's value by key, also if it is written without keys."""
    if verb.short is None or piece.is_empty:
        return piece.entries(verb.keys)
    if not isinstance(piece.node, Mapped):
        return {verb.short: piece}
    if verb.keys[verb.short].kind is not expressions:
        return piece.entries(verb.keys)
    # These are columns and expressions, unless a value is a mapping: no expression is one.
    nested = any(isinstance(node, Mapped) for _, node in piece.node.entries)
    return piece.entries(verb.keys) if nested else {verb.short: piece}


def read_keys(
    piece: YamlPiece, pieces: Mapping[str, YamlPiece], keys: Mapping[str, Key]
) -> dict[str, object]:
    """Read the values by parameter name; an omitted one keeps the parameter's default."""
    for name, key in keys.items():
        if key.required and name not in pieces:
            piece.fail(f"{name!r} is missing")
    return {keys[name].parameter or name: keys[name].kind(given) for name, given in pieces.items()}


def read_reference(piece: YamlPiece, verbs: Mapping[str, Verb]) -> YamlReference | None:
    """Read an input: its name, or `from` with either `where` or `steps`."""
    if not isinstance(piece.node, Mapped):
        name = text(piece)
        return None if name is None else YamlReference(name)
    return reference_of(piece, piece.entries(REFERENCE), verbs)


def reference_of(
    piece: YamlPiece, pieces: Mapping[str, YamlPiece], verbs: Mapping[str, Verb]
) -> YamlReference | None:
    name = text(pieces["from"]) if "from" in pieces else piece.fail("'from' is missing")
    if "where" in pieces and "steps" in pieces:
        pieces["where"].fail(
            "together with steps, write the condition as a step: filter: {where: …}"
        )
    where = condition(pieces["where"]) if "where" in pieces else None
    steps = read_steps(pieces["steps"], name or "?", verbs) if "steps" in pieces else ()
    if where:
        steps = (YamlStep(Frame.filter, {"condition": where}),)
    return None if name is None else YamlReference(name, steps)
