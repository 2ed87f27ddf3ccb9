"""The picture: CPU per request by server and shape, one panel for each shape.

Needs matplotlib (scripts/requirements.txt); without it there is none.
"""

import math
import pathlib
import sys

from .console import say
from .places import CACHE
from .report import Report, significant
from .rounds import RowResult
from .rows import Row
from .verdicts import cheapest, median_cpu_us

COLUMNS = 3
PANEL_WIDTH_IN, BAR_HEIGHT_IN, PANEL_MARGIN_IN = 4.2, 0.22, 0.75
OURS, FLOOR, OTHERS = "#c2410c", "#9ca3af", "#475569"


def load_pyplot():
    """None without matplotlib, which is looked for where scripts/setup puts it, too."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(CACHE / "venv/lib" / version / "site-packages"))
    try:
        import matplotlib
    except ModuleNotFoundError:
        say("no chart without matplotlib; run scripts/setup, or pip install -r scripts/requirements.txt")
        return None
    matplotlib.use("svg")
    # Text stays text, and the same results make the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tared", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def save(pyplot, figure, path: pathlib.Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw(report: Report, path: pathlib.Path) -> None:
    pyplot = load_pyplot()
    if pyplot is None:
        return
    panels = [(row, result, costs) for row, result in report.rows if (costs := costs_of(row, result))]
    if not panels:
        say("no chart: there is nothing to draw")
        return
    lines = math.ceil(len(panels) / COLUMNS)
    bars_max = max(len(costs) for _, _, costs in panels)
    size = (COLUMNS * PANEL_WIDTH_IN, lines * (bars_max * BAR_HEIGHT_IN + PANEL_MARGIN_IN))
    figure, axes = pyplot.subplots(lines, COLUMNS, figsize=size, squeeze=False, layout="constrained")
    figure.suptitle("CPU of the server per request, µs; dashed: the floor")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (row, result, costs) in zip(axes.flat, panels, strict=False):
        draw_panel(axis, row, result, costs)
    save(pyplot, figure, path)


def costs_of(row: Row, result: RowResult) -> dict[str, float]:
    """From the cheapest on."""
    named = [contender.name for contender in row.contenders]
    costs = {name: cost for name in named if (cost := median_cpu_us(result, row.load.name, name)) is not None}
    return dict(sorted(costs.items(), key=lambda item: item[1]))


def draw_panel(axis, row: Row, result: RowResult, costs: dict[str, float]) -> None:
    families = {contender.name: contender.family for contender in row.contenders}
    colours = [{"tared": OURS, "floor": FLOOR}.get(families[name], OTHERS) for name in costs]
    bars = axis.barh(list(costs), list(costs.values()), color=colours)
    labels = [significant(cost) for cost in costs.values()]
    # On white, or the line of the floor would run through them.
    axis.bar_label(bars, labels, padding=3, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    floors = tuple(name for name in costs if families[name] == "floor")
    if floor := cheapest(row, result, floors):
        axis.axvline(costs[floor], color=FLOOR, linestyle="--", linewidth=1, zorder=0.5)
    unit = ", per GiB" if row.per_bytes else ""
    axis.set_title(f"{row.id}: {row.title}{unit}", loc="left", fontsize=9, fontweight="bold")
    axis.invert_yaxis()
    axis.margins(x=0.2)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[["top", "right", "bottom"]].set_visible(False)
