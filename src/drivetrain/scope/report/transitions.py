"""Calls of Python into native code on the page: per step as a chart, all numbers as a table."""

from collections.abc import Mapping
from html import escape

from drivetrain.scope.profile import Profile
from drivetrain.scope.report.amounts import brief
from drivetrain.scope.report.cells import table
from drivetrain.scope.report.chart import Bar, Chart, Line, Row


def render(profile: Profile, colors: Mapping[str, str]) -> str:
    """The most calls first; where no steps are known the chart is of all calls."""
    per_step = profile.transitions_per_step()
    found = [
        (count, operation, name)
        for operation, classes in profile.transitions().items()
        for name, count in classes.items()
    ]
    if not found:
        return "<p>None was seen.</p>"
    drawn: list[Row] = []
    rows: list[list[str]] = []
    for count, operation, name in sorted(found, reverse=True):
        length = count if per_step is None else per_step[operation][name]
        label = f"{brief(operation)} into {name}"
        says = f"{label}: {count:,} calls" + ("" if per_step is None else f", {length:.3g} per step")
        bar = Bar(start=0, stop=length, color=colors.get(operation, "currentColor"), says=says)
        drawn.append(Row(label=label, lines=[Line(bars=[bar], value=f"{length:,.3g}")]))
        rows.append([escape(operation), name, str(count), "no steps" if per_step is None else f"{length:.3g}"])
    unit = "calls" if per_step is None else "calls per step"
    chart = Chart(says=f"Python calling native code, {unit}", rows=drawn, unit=unit).render()
    return chart + table(["operation", "into", "calls", "per step"], rows, "transitions")
