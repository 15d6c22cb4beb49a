// Draws the page's charts with Observable Plot: every <figure class="chart"> from the JSON inside it (chart.py writes
// it). Rows are facets: a label above, and below it one line or several of bars, intervals and outlines.
// A chart takes the focus; arrow keys then go through its parts, and what a part says is written below the chart.
"use strict";
{
  const LABEL = 20, LINE = 20, GAP = 8, AXIS = 40, NAME = 18, VALUE = 72;

  const flat = (rows, of) =>
    rows.flatMap((row, fy) => row.lines.flatMap((line, y) => of(line).map((one) => ({fy, y, ...one}))));

  const when = ({from, to}) => `${+from.toPrecision(4)} to ${+to.toPrecision(4)}`;

  function drawn(chart, width) {
    const {rows, kinds, low, high, per} = chart;
    const deepest = Math.max(...rows.map((row) => row.lines.length));
    const lines = flat(rows, (line) => [{name: line.name, value: line.value}]);
    const bars = flat(rows, (line) =>
      line.bars.map(([from, to, kind]) => ({from: from / per, to: to / per, kind: kinds[kind]})));
    const intervals = flat(rows, (line) => (line.interval ? [line.interval.map((x) => x / per)] : []))
      .map(({fy, y, 0: from, 1: to}) => ({fy, y, from, to}));
    const outlines = flat(rows, (line) => (line.outline === null ? [] : [{to: line.outline / per}]));
    const names = lines.some(({name}) => name), values = lines.some(({value}) => value);
    const size = 13, marginLeft = names ? NAME : 1, marginRight = values ? VALUE : 12;
    const at = {fy: "fy", y: "y"};
    return Plot.plot({
      width,
      height: rows.length * (LABEL + deepest * LINE + GAP) + AXIS,
      marginTop: 0, marginBottom: AXIS, marginLeft, marginRight,
      style: {fontSize: `${size}px`},
      ariaLabel: chart.says,
      x: {domain: [low / per, high / per]},
      y: {domain: Array.from({length: deepest}, (_, y) => y), axis: null, insetTop: LABEL, insetBottom: GAP, padding: 0.2},
      fy: {domain: rows.map((_, fy) => fy), axis: null, padding: 0},
      color: {type: "identity"},
      opacity: {type: "identity"},
      marks: [
        Plot.axisX({label: chart.unit, labelAnchor: "center", labelArrow: "none", ticks: Math.max(2, width / 110)}),
        Plot.barX(lines, {...at, x1: low / per, x2: high / per, fill: "currentColor", fillOpacity: 0.08}),
        Plot.barX(bars, {
          ...at, x1: "from", x2: "to", fill: (d) => d.kind.color, fillOpacity: (d) => d.kind.opacity,
          title: (d) => (chart.over_time ? `${rows[d.fy].label}: ${d.kind.says}, ${when(d)} ${chart.unit}` : d.kind.says),
          className: "parts",
        }),
        Plot.barX(outlines, {...at, x1: 0, x2: "to", fill: "none", stroke: "currentColor", strokeOpacity: 0.6}),
        Plot.ruleY(intervals, {...at, x1: "from", x2: "to", stroke: "currentColor", strokeWidth: 1.5, className: "intervals"}),
        Plot.tickX(intervals, {...at, x: "from", stroke: "currentColor", insetTop: 3, insetBottom: 3}),
        Plot.tickX(intervals, {...at, x: "to", stroke: "currentColor", insetTop: 3, insetBottom: 3}),
        low < -0.005 * high ? Plot.ruleX([0], {strokeOpacity: 0.5}) : null,
        Plot.text(rows, {
          fy: (_, fy) => fy, text: "label", frameAnchor: "top-left", dx: 1 - marginLeft, dy: 3, className: "labels",
          lineWidth: (width - 4) / size, textOverflow: "ellipsis-end",
        }),
        Plot.text(lines, {...at, text: "name", frameAnchor: "left", textAnchor: "end", dx: -5, fontWeight: 600}),
        Plot.text(lines, {...at, text: "value", frameAnchor: "right", textAnchor: "start", dx: 6, className: "values"}),
      ],
    });
  }

  function show(figure) {
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const said = figure.querySelector("output"), place = figure.querySelector("div");
    let chosen = -1, width = 0;
    const choose = (part) => {
      const parts = [...place.querySelectorAll(".parts rect")];
      for (const one of parts) one.classList.remove("chosen");
      chosen = Math.max(-1, Math.min(part, parts.length - 1));
      if (chosen < 0) return (said.textContent = "");
      parts[chosen].classList.add("chosen");
      return (said.textContent = parts[chosen].querySelector("title").textContent);
    };
    const draw = () => {
      if (place.clientWidth === 0 || place.clientWidth === width) return;
      width = place.clientWidth;
      place.replaceChildren(drawn(chart, width));
      choose(chosen);
    };
    figure.addEventListener("keydown", (event) => {
      const last = place.querySelectorAll(".parts rect").length - 1;
      const to = {
        ArrowRight: chosen + 1, ArrowDown: chosen + 1, ArrowLeft: Math.max(0, chosen - 1), ArrowUp: Math.max(0, chosen - 1),
        Home: 0, End: last, Escape: -1,
      }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      choose(to);
    });
    place.addEventListener("click", (event) => {
      const parts = [...place.querySelectorAll(".parts rect")];
      choose(parts.indexOf(event.target));
    });
    figure.hidden = false;
    draw();
    new ResizeObserver(draw).observe(place);
  }

  for (const figure of document.querySelectorAll("figure.chart")) show(figure);
}
