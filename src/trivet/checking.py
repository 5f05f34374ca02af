"""Does an artifact compute what its model means: against the oracle, and against the reference runtimes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.compare import FLOAT_TOLERANCE, Comparison, compare
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.options import is_read_as_stored
from trivet.ir.graph import Graph, Port, Value
from trivet.ir.op import Array
from trivet.reference import Reference, ReferenceRefused, references_for


class Runs(Protocol):
    """An artifact that can be asked what it computes."""

    @property
    def input_ports(self) -> Sequence[Port]: ...

    @property
    def output_ports(self) -> Sequence[Port]: ...


@runtime_checkable
class ShowsLayers(Protocol):
    """An artifact whose layers can be looked at, from its first state."""

    def run_layers(self, inputs: Sequence[Array], observe: Callable[[str, Array], None]) -> list[Array]: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the outputs compare with one authority; `binding` means that a difference is a failure.

    `remark` says why there is no comparison, or which layer differs first.
    """

    authority: str
    binding: bool
    outputs: tuple[Comparison, ...]
    remark: str = ""

    @property
    def failed(self) -> bool:
        return self.binding and not all(c.same for c in self.outputs)

    def __str__(self) -> str:
        if not self.outputs:
            return f"{self.authority}: {self.remark}"
        parts = "; ".join(str(c) for c in self.outputs)
        binding = "" if self.binding else " (for information)"
        return f"{self.authority}{binding}: {parts}" + (f"; {self.remark}" if self.remark else "")


def check(
    artifact: Runs, model: Path, settings: driver.Settings, inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[Verdict]:
    """Verdicts of the oracle and of every reference for `model`; `outputs` are what the artifact gave for `inputs`.

    Raises: CompileError where the model cannot be read, or is not what the artifact was made from.
    """
    loaded = driver.load(model, settings)
    graph = loaded.graph
    _check_interface(artifact, graph, model)
    verdicts = [_oracle(artifact, graph, settings, inputs, outputs)]
    for reference in references_for(model) if is_read_as_stored(model) else ():
        verdicts.append(_reference(reference, model, loaded.numerics, inputs, outputs, bool(graph.states)))
    return verdicts


def _check_interface(artifact: Runs, graph: Graph, model: Path) -> None:
    """Raises: InvalidModel where the artifact's inputs or outputs are not the model's."""
    for kind, made, declared in (
        ("inputs", artifact.input_ports, graph.input_ports),
        ("outputs", artifact.output_ports, graph.output_ports),
    ):
        ours = [f"{port.type.dtype.name}{list(port.type.shape)}" for port in made]
        theirs = [f"{port.type.dtype.name}{list(port.type.shape)}" for port in declared]
        if ours != theirs:
            raise InvalidModel(
                f"has the {kind} {', '.join(theirs)}, the artifact has {', '.join(ours)}",
                where=model,
                hint="give the model that the artifact was made from, and the same --input-shape and --bind",
            )


def _oracle(
    artifact: Runs, graph: Graph, settings: driver.Settings, inputs: Sequence[Array], outputs: Sequence[Array]
) -> Verdict:
    driver.optimize(graph, settings)
    expected, _ = interp.run_model(graph, inputs)
    comparisons = tuple(compare(e, a) for e, a in zip(expected, outputs, strict=True))
    failed = not all(c.same for c in comparisons)
    remark = _first_wrong_layer(artifact, graph, inputs) if failed and isinstance(artifact, ShowsLayers) else ""
    return Verdict("oracle", True, comparisons, remark)


def _first_wrong_layer(artifact: ShowsLayers, graph: Graph, inputs: Sequence[Array]) -> str:
    """The first step whose result is not the oracle's, all steps before it being right."""
    expected: dict[str, Array] = {}

    def observe(value: Value, array: Array) -> None:
        expected[value.name] = array

    interp.run_model(graph, inputs, observe=observe)
    wrong: list[str] = []

    def layer(name: str, array: Array) -> None:
        if name in expected and not wrong:
            comparison = compare(expected[name], array)
            if not comparison.same:
                wrong.append(f"first wrong layer: '{name}': {comparison}")

    if isinstance(artifact, Artifact):
        artifact.reset()
    artifact.run_layers(inputs, layer)
    return wrong[0] if wrong else "no single layer is wrong"


def _reference(
    reference: Reference,
    model: Path,
    numerics: Numerics | None,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    has_state: bool,
) -> Verdict:
    if not reference.is_installed():
        return Verdict(reference.name, False, (), f"not installed (pip install {reference.package})")
    try:
        expected = reference.run(model, inputs)
    except ReferenceRefused as refusal:
        return Verdict(reference.name, False, (), f"does not run the model: {refusal}")
    exact = reference.exact_for is numerics and numerics is not Numerics.ONNX
    floats = all(array.dtype.kind == "f" for array in (*inputs, *outputs))
    tolerance = 1e-3 if has_state else FLOAT_TOLERANCE
    comparisons = tuple(compare(e, a, tolerance) for e, a in zip(expected, outputs, strict=True))
    return Verdict(reference.name, exact and not floats, comparisons)
