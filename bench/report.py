"""Reports the results of a benchmark: a table on the terminal and `bench/results/NAME.json`.

A missed target is reported like any other result. The benchmark still exits with code 0.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    value: float
    unit: str
    target: float | None = None
    met: bool | None = None

    @classmethod
    def at_most(cls, name: str, value: float, unit: str, target: float) -> "Result":
        return cls(name, value, unit, target, value <= target)

    @classmethod
    def at_least(cls, name: str, value: float, unit: str, target: float) -> "Result":
        return cls(name, value, unit, target, value >= target)

    @classmethod
    def of(
        cls, name: str, value: float, unit: str, at_least: Mapping[str, float], at_most: Mapping[str, float]
    ) -> "Result":
        """Return a result with its target, if one of the mappings has its name."""
        if name in at_least:
            return cls.at_least(name, value, unit, at_least[name])
        if name in at_most:
            return cls.at_most(name, value, unit, at_most[name])
        return cls(name, value, unit)


def write(name: str, results: list[Result]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    rows = [("", "value", "unit", "target", "met"), *map(_cells, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())


def _cells(result: Result) -> tuple[str, str, str, str, str]:
    target = "" if result.target is None else f"{result.target:,.10g}"
    met = "" if result.met is None else "yes" if result.met else "NO"
    return result.name, f"{result.value:,.10g}", result.unit, target, met
