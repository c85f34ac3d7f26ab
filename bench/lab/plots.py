"""Bars on a logarithmic scale, as an SVG under docs/benchmarks/."""

import math
from collections.abc import Mapping
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
LEFT, WIDTH, HEIGHT, GAP = 150, 460, 18, 6
COLOURS = {"index": "#1a7f64", "log": "#c7a252", "deltalake": "#9aa5b1"}


def write_bars(name: str, title: str, values: Mapping[str, float]) -> None:
    """`values`: by a label, whose last word tells the colour."""
    least = math.floor(math.log10(min(values.values())))
    most = max(math.ceil(math.log10(max(values.values()))), least + 1)
    height = 34 + (HEIGHT + GAP) * len(values)
    view = f'viewBox="0 0 {LEFT + WIDTH + 90} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="sans-serif" font-size="12">',
        f'<text x="4" y="16" font-size="14">{escape(title)}, logarithmic</text>',
    ]
    for number, (label, value) in enumerate(values.items()):
        top = 28 + number * (HEIGHT + GAP)
        length = max((math.log10(value) - least) / (most - least) * WIDTH, 1)
        colour = COLOURS.get(label.split()[-1], "#9aa5b1")
        parts.append(f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{HEIGHT}" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{top + 13}">{value:,.4g}</text>')
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.svg").write_text("\n".join([*parts, "</svg>"]) + "\n")
