"""Draws docs/benchmarks/*.svg from `bench/results/index.json`: one line per implementation, both axes logarithmic.

`python -m bench.plots` redraws them without measuring. The drawings have their own background and follow the reader's
light or dark colour scheme.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.report import RESULTS

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
WIDTH, HEIGHT = 720, 400
LEFT, TOP, RIGHT, BOTTOM = 84, 64, 196, 60
TABLES = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000, "10M": 10_000_000}
STYLE = """\
text { font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; font-size: 14px; fill: #24323d; }
.title { font-size: 17px; font-weight: 700; }
.card { fill: #ffffff; stroke: #d5dde3; }
.grid { stroke: #e3e9ee; }
.line { fill: none; stroke-width: 3; }
.index { stroke: #12805c; fill: #12805c; }
.log { stroke: #a8660b; fill: #a8660b; }
.deltalake { stroke: #5b6b7a; fill: #5b6b7a; }
.line.index, .line.log, .line.deltalake { fill: none; }
text.index, text.log, text.deltalake { font-weight: 700; paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
@media (prefers-color-scheme: dark) {
  text { fill: #dfe7ee; }
  .card { fill: #161d26; stroke: #35424f; }
  .grid { stroke: #2a3541; }
  .index { stroke: #46c79b; fill: #46c79b; }
  .log { stroke: #e3a84a; fill: #e3a84a; }
  .deltalake { stroke: #9fb0c0; fill: #9fb0c0; }
  text.index, text.log, text.deltalake { stroke: #161d26; }
}"""


@dataclass(frozen=True, slots=True)
class Series:
    css: str
    label: str
    points: dict[str, float]


@dataclass(frozen=True, slots=True)
class Plot:
    name: str
    title: str
    series: tuple[Series, ...]


def plots() -> list[Plot]:
    values = {result["name"]: result["value"] for result in json.loads((RESULTS / "index.json").read_text())}

    def of(css: str, label: str, name: str, factor: float = 1) -> Series:
        found = {table: values.get(f"{table}: {name}") for table in TABLES}
        return Series(css, label, {table: value * factor for table, value in found.items() if value is not None})

    selective = {
        "day": "Files of one day (one partition)",
        "point": "Files that may hold one key",
        "range": "Files in a range of a clustered column",
    }
    drawn = [
        Plot(
            f"index-{kind}",
            f"{title}: warm query, median",
            (
                of("index", "Sluice, index", f"{kind} query, p50"),
                of("log", "Sluice, log", f"{kind} query, the log, p50"),
                of("deltalake", "deltalake, cold", f"{kind} query, deltalake"),
            ),
        )
        for kind, title in selective.items()
    ]
    listing = (
        of("index", "Sluice, index", "full listing", 1000),
        of("log", "Sluice, log", "full listing, the log", 1000),
    )
    drawn.append(Plot("index-full-listing", "All files, with signed URLs: warm query", listing))
    job = (of("index", "Spark job", "job, seconds", 1000),)
    drawn.append(Plot("index-job", "Full build of an index on two cores", job))
    return drawn


def svg(plot: Plot) -> str:
    """Return a line chart with a label at the last point of each series."""
    shown = [series for series in plot.series if series.points]
    values = [value for series in shown for value in series.points.values()]
    tables = [table for table in TABLES if any(table in series.points for series in shown)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(table: str) -> float:
        first, last = math.log10(TABLES[tables[0]]), math.log10(TABLES[tables[-1]])
        return LEFT + 20 + (math.log10(TABLES[table]) - first) / (last - first) * (right - LEFT - 40)

    def y(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - TOP)

    view, label = f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'aria-label="{escape(plot.title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" {label}>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        f'<text class="title" x="24" y="34">{escape(plot.title)}</text>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f} H{right}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{at + 5:.1f}" text-anchor="end">{_time(10**power)}</text>')
    parts += [f'<text x="{x(table):.1f}" y="{bottom + 24}" text-anchor="middle">{table}</text>' for table in tables]
    parts.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{bottom + 46}" text-anchor="middle">files in the table</text>')
    for series in shown:
        spots = [(x(table), y(value)) for table, value in series.points.items()]
        path = " L".join(f"{across:.1f} {down:.1f}" for across, down in spots)
        parts.append(f'<path class="line {series.css}" d="M{path}"/>')
        parts += [f'<circle class="{series.css}" cx="{across:.1f}" cy="{down:.1f}" r="4"/>' for across, down in spots]
    parts += _labels(shown, x, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _labels(shown: list[Series], x: Callable[[str], float], y: Callable[[float], float]) -> list[str]:
    """Return the name and last value of each series, beside its last point, moved apart if two would overlap."""
    labels: list[str] = []
    previous = -math.inf
    for series in sorted(shown, key=lambda series: y(list(series.points.values())[-1])):
        table, value = list(series.points.items())[-1]
        down = max(y(value) + 5, previous + 18)
        previous = down
        text = f"{series.label}: {_time(value)}"
        labels.append(f'<text class="{series.css}" x="{x(table) + 12:.1f}" y="{down:.1f}">{escape(text)}</text>')
    return labels


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        seconds = milliseconds / 1000
        return f"{seconds:,.0f} s" if seconds >= 1000 else f"{seconds:.3g} s"
    return f"{milliseconds:.3g} ms"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for plot in plots():
        (FOLDER / f"{plot.name}.svg").write_text(svg(plot))


if __name__ == "__main__":
    main()
