"use strict";
// Draws the charts with uPlot and the maps on canvases; sorts and copies tables. It makes no request to the network.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4], [2, 6], [8, 3, 2, 3, 2, 3]];
  const colour = i => data.palette[i % data.palette.length][dark.matches ? 1 : 0];
  const dash = i => DASHES[i % DASHES.length];
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = x => x == null ? "–" : Number.isInteger(x) ? x.toLocaleString("en-US") : Math.abs(x) < 1e-4
    ? x.toPrecision(3) : Number(x.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 });
  const made = (tag, text) => { const e = document.createElement(tag); if (text != null) e.textContent = text; return e; };
  const redraws = [];

  // Lightness alone carries the value: dark is small, light is large.
  const STOPS = [[62, 44, 128], [62, 74, 148], [33, 104, 140], [40, 160, 124], [140, 205, 80], [253, 240, 130]];
  function shade(part) {
    const at = Math.min(Math.max(part, 0), 1) * (STOPS.length - 1), i = Math.min(Math.floor(at), STOPS.length - 2);
    return "rgb(" + STOPS[i].map((low, c) => Math.round(low + (at - i) * (STOPS[i + 1][c] - low))).join(",") + ")";
  }
  function sized(canvas, height) {
    const width = Math.max(canvas.clientWidth, 40), ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return [pen, width];
  }

  // ------------------------------------------------------------------ charts
  const WHOLE = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map(x => x * 10 ** i)).flat();
  function axes(labelX, labelY) {
    const incrs = labelX === "seconds" ? {} : { incrs: WHOLE };
    const common = { stroke: css("--ink"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
    return [{ ...common, ...incrs, label: labelX }, { ...common, label: labelY, size: 64 }];
  }
  function around(value) { const room = Math.abs(value) || 1; return [value - room, value + room]; }
  function chart(place, options, columns) {
    place.replaceChildren();
    const size = { width: Math.max(place.clientWidth, 200), height: Math.min(320, Math.max(220, place.clientWidth * 0.45)) };
    return new uPlot({ legend: { show: false }, scales: { x: { time: false } }, ...size, ...options }, columns, place);
  }
  function sample(i, j = i, wide = 2) {
    const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "line");
    svg.setAttribute("width", "34"); svg.setAttribute("height", "10"); svg.setAttribute("aria-hidden", "true");
    for (const [k, v] of Object.entries({ x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour(i), "stroke-width": wide,
      "stroke-dasharray": dash(j).join(" ") })) line.setAttribute(k, v);
    svg.append(line);
    return svg;
  }

  for (const figure of document.querySelectorAll(".curves")) {
    const env = data.environments[figure.dataset.environment];
    const [metric, axis, every] = [".metric", ".axis", ".every"].map(s => figure.querySelector(s));
    for (const [name, words] of Object.entries(env.metrics)) metric.append(new Option(words, name));
    for (const name of Object.keys(env.axes)) axis.append(new Option(name, name));
    const several = Object.values(env.axes)[0].metrics[metric.value].some(c => c.seeds.length);
    figure.querySelector(".seeds").hidden = !several;
    const draw = () => {
      const here = env.axes[axis.value];
      const look = agent => ({ hue: data.colours[agent], dash: Object.keys(env.possible).indexOf(agent) });
      const curves = here.metrics[metric.value].map(c => ({ ...c, ...look(c.agent) }));
      // Evaluations are drawn beside the training return, which includes exploration.
      const evaluated = metric.value === "episode_return" && here.metrics.greedy_return;
      if (evaluated) evaluated.forEach(c => {
        const more = { agent: c.agent + ", evaluation return", seeds: [], wide: 4, shade: false };
        if (c.mean.some(x => x != null)) curves.push({ ...c, ...look(c.agent), ...more });
      });
      if (metric.value === "largest_q") for (const [agent, possible] of Object.entries(env.possible)) if (possible) {
        const none = here.x.map(() => null);
        curves.push({ agent: agent + ", possible return", mean: here.x.map(() => possible), low: none, high: none, seeds: [], ...look(agent), wide: 1 });
      }
      const columns = [here.x], series = [{}], bands = [], means = [];
      curves.forEach(c => {
        const add = (values, look) => { columns.push(values); series.push({ points: { show: false }, ...look }); };
        if (every.checked) c.seeds.forEach(s => add(s, { stroke: colour(c.hue) + (c.count < 3 ? "99" : "55"), width: 1 }));
        if (c.shade !== false && c.low.some(x => x != null)) {
          add(c.high, { stroke: "transparent", auto: false }); add(c.low, { stroke: "transparent", auto: false });
          bands.push({ series: [columns.length - 2, columns.length - 1], fill: colour(c.hue) + "2e" });
        }
        const one = here.x.length < 3 || c.mean.filter(x => x != null).length === 1;
        add(c.mean, { stroke: colour(c.hue), width: c.wide ?? 2, dash: dash(c.dash), points: { show: one } });
        means.push(columns.length - 1);
      });
      // The interval of few seeds is wide: it gets at most half of the height.
      const range = (u, min, max) => {
        if (min == null) return [0, 1];
        if (min === max && curves.every(c => c.low.every(x => x == null || x === min))) return around(min);
        let low = min, high = max;
        const room = (max - min) / 2, from = u.scales.x.min ?? -Infinity, to = u.scales.x.max ?? Infinity;
        for (const c of curves) here.x.forEach((x, k) => {
          if (x < from || x > to || c.low[k] == null || c.shade === false) return;
          low = Math.min(low, c.low[k]); high = Math.max(high, c.high[k]);
        });
        return uPlot.rangeNum(Math.max(low, min - room), Math.min(high, max + room), 0.05, true);
      };
      const legend = figure.querySelector(".legend");
      legend.replaceChildren(...curves.map(c => {
        const entry = made("span");
        entry.append(sample(c.hue, c.dash, c.wide), made("span", c.agent), made("b"));
        return entry;
      }));
      // Quoted: the value under the cursor, or the last one that all seeds have.
      const quote = at => curves.forEach((c, i) => {
        const x = at ?? c.mean.findLastIndex(v => v != null);
        legend.children[i].lastChild.textContent = x < 0 || c.mean[x] == null ? "–" : shown(c.mean[x])
          + (c.low[x] != null ? ` (${shown(c.low[x])} to ${shown(c.high[x])}, ${c.count} seeds)` : c.count > 1 ? ` (${c.count} seeds)` : "")
          + (at == null && x < here.x.length - 1 ? ` at ${shown(Math.round(here.x[x]))} ${axis.value}` : "");
      });
      chart(figure.querySelector(".chart"), { axes: axes(axis.value, env.metrics[metric.value]), series, bands,
        scales: { x: { time: false }, y: { range } }, cursor: { points: { show: (u, i) => means.includes(i) } },
        hooks: { setCursor: [u => quote(u.cursor.idx)] } }, columns);
      quote(null);
      const evaluation = "Evaluation return: the return of the trained policy without exploration (wide lines), interpolated between evaluations.";
      figure.querySelector(".note").textContent = [
        metric.value === "bad_share" ? "Share of all episodes so far." : ["greedy_return", "success_rate", "mean_length"].includes(metric.value) ? evaluation
          : env.window > 1 ? `Mean over the last ${env.window} episodes.` : "Every episode.",
        evaluated ? evaluation : "",
        several ? "Lines: mean over seeds, as far as all seeds have run; a seed that reached its goal keeps its last value." : "",
        bands.length ? "Shaded: its 95 % interval." : "", several && every.checked ? "Thin: single seeds." : "",
      ].filter(Boolean).join(" ");
    };
    for (const control of [metric, axis, every]) control.addEventListener("change", draw);
    redraws.push(draw);
  }

  for (const figure of document.querySelectorAll(".distribution")) {
    const one = data.distributions[figure.dataset.run], q = one.kinds[figure.dataset.kind];
    redraws.push(() => {
      const own = colour(data.colours[one.agent]);
      const series = [{}, ...q.map((_, i) => ({ stroke: i === 2 ? own : "transparent", width: i === 2 ? 2 : 0, points: { show: false } }))];
      const bands = [{ series: [5, 1], fill: own + "22" }, { series: [4, 2], fill: own + "44" }];
      chart(figure.querySelector(".chart"), { axes: axes("episodes", figure.dataset.kind.split(" of ")[0]), series, bands }, [one.episodes, ...q]);
    });
  }

  // ------------------------------------------------------------------ acting heads
  const who = document.getElementById("who");
  if (who) {
    const choice = document.getElementById("strip"), caption = document.getElementById("who-caption");
    const draw = () => {
      const one = data.strips[choice.value], heads = one.acted.length, bins = one.acted[0].length;
      const height = Math.max(60, Math.min(22, 420 / heads) * heads + 4), [pen, width] = sized(who, height);
      const values = one.earned.flat().filter(v => v != null), low = Math.min(...values), high = Math.max(...values);
      const left = 44, w = (width - left) / bins, h = (height - 4) / heads;
      pen.font = Math.max(8, Math.min(11, h - 2)) + "px system-ui";
      one.acted.forEach((row, k) => {
        pen.fillStyle = css("--ink");
        if (h >= 9 || k % 2 === 0) pen.fillText((k < one.exploiters ? "●" : "○") + " " + k, 3, (k + 0.8) * h);
        row.forEach((count, b) => {
          if (!count) return;
          pen.fillStyle = shade(high > low ? (one.earned[k][b] - low) / (high - low) : 0.5);
          pen.fillRect(left + b * w, k * h + 1, Math.max(w - 0.5, 0.5), h - 1.5);
        });
      });
      const share = part => one.rows.filter(r => (r.head < one.exploiters) === part).reduce((n, r) => n + r.episodes, 0);
      caption.textContent = `Episodes ${shown(one.edges[0])} to ${shown(one.edges[bins])}: exploiters acted in ${shown(share(true))}, explorers in ${shown(share(false))}. `
        + (high > low ? `Mean returns from ${shown(low)} (dark) to ${shown(high)} (light).` : `All mean returns are ${shown(low)}.`);
      const groups = [["exploiters", k => k < one.exploiters], ["explorers", k => k >= one.exploiters]]
        .filter(([, has]) => one.rows.some(r => has(r.head) && r.episodes));
      const columns = groups.map(([, has]) => one.edges.slice(0, bins).map((_, b) => {
        let n = 0, sum = 0;
        one.acted.forEach((row, k) => { if (has(k) && row[b]) { n += row[b]; sum += row[b] * one.earned[k][b]; } });
        return n ? sum / n : null;
      }));
      const scales = { x: { time: false }, ...(high > low ? {} : { y: { range: around(low) } }) };
      chart(document.getElementById("earned"), { axes: axes("episodes", "mean return"), scales,
        series: [{}, ...groups.map((_, i) => ({ stroke: colour(data.colours[one.agent]), width: 2, dash: dash(i), spanGaps: true, points: { show: false } }))] },
        [one.edges.slice(0, bins), ...columns]);
      document.getElementById("earned-legend").replaceChildren(...groups.map(([name], i) => {
        const entry = made("span"); entry.append(sample(data.colours[one.agent], i), made("span", name)); return entry;
      }));
    };
    choice.addEventListener("change", draw);
    redraws.push(draw);
  }

  // ------------------------------------------------------------------ maps
  const moment = document.getElementById("moment");
  if (moment) {
    const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
    for (const map of data.maps) {
      map.place = new Int32Array(map.rows * map.columns).fill(-1);
      map.cells.forEach((cell, s) => { map.place[cell] = s; });
      for (const layer of map.layers) { layer.steps = bytes(layer.data); delete layer.data; }
    }
    const times = [...new Set(data.maps.flatMap(m => m.episodes))].sort((a, b) => a - b);
    const play = document.getElementById("play"), what = document.getElementById("layer"), episode = document.getElementById("episode");
    const figures = [...document.querySelectorAll(".map")];
    moment.max = times.length - 1;
    const value = (layer, step) => step === 0 ? 0 : layer.high === layer.low ? layer.high
      : layer.low * Math.pow(layer.high / layer.low, (step - 1) / 254);
    const words = (layer, step) => (step > 1 ? "about " : step && !layer.whole ? "at most " : "")
      + shown(layer.whole ? Math.round(value(layer, step)) : value(layer, step));
    let ends = [1, 1];
    const frameAt = map => Math.max(map.episodes.findLastIndex(e => e <= times[moment.value]), 0);
    const layerOf = map => map.layers.find(l => l.name === what.value);
    function bounds() {
      const layers = data.maps.map(layerOf).filter(l => l && l.steps.some(x => x));
      ends = layers.length ? [Math.min(...layers.map(l => l.low)), Math.max(...layers.map(l => l.high))] : [1, 1];
      document.getElementById("low").textContent = shown(ends[0]);
      document.getElementById("high").textContent = shown(ends[1]);
      const bar = document.getElementById("scale"), [pen, width] = sized(bar, 12);
      for (let x = 0; x < width; x++) { pen.fillStyle = shade(x / width); pen.fillRect(x, 0, 1, 12); }
    }
    const part = v => ends[1] > ends[0] ? Math.log(v / ends[0]) / Math.log(ends[1] / ends[0]) : 1;
    function draw(figure) {
      const map = data.maps[figure.dataset.map], frame = frameAt(map), layer = layerOf(map), canvas = figure.querySelector("canvas");
      const size = Math.min(Math.max(canvas.clientWidth, 40) / map.columns, 60), [pen] = sized(canvas, Math.ceil(size * map.rows));
      const count = map.cells.length;
      const at = s => [map.cells[s] % map.columns, Math.floor(map.cells[s] / map.columns)];
      let largest = 0, where = -1, filled = 0;
      for (let s = 0; s < count; s++) {
        const [x, y] = at(s), step = layer ? layer.steps[frame * count + s] : 0;
        if (step) {
          const v = value(layer, step);
          filled++;
          if (v > largest) { largest = v; where = s; }
          pen.fillStyle = shade(part(v));
          pen.fillRect(x * size, y * size, Math.max(size - 0.5, 0.5), Math.max(size - 0.5, 0.5));
        } else {
          pen.strokeStyle = css("--line"); pen.lineWidth = 1;
          pen.beginPath(); pen.moveTo(x * size, (y + 1) * size); pen.lineTo((x + 1) * size, y * size); pen.stroke();
        }
      }
      const path = map.paths[frame];
      for (const [style, wide] of [["#000", 4], ["#fff", 2]]) {
        pen.strokeStyle = style; pen.lineWidth = wide; pen.lineJoin = "round";
        pen.beginPath();
        path.forEach((s, i) => {
          const [x, y] = at(s), jump = i && Math.abs(x - at(path[i - 1])[0]) > 1;
          pen[i && !jump ? "lineTo" : "moveTo"]((x + 0.5) * size, (y + 0.5) * size);
        });
        pen.stroke();
      }
      const gx = map.goal % map.columns, gy = Math.floor(map.goal / map.columns);
      pen.font = `${Math.max(size, 12)}px system-ui`; pen.textAlign = "right"; pen.textBaseline = "bottom";
      pen.lineWidth = 3; pen.strokeStyle = "#000"; pen.fillStyle = "#fff";
      pen.strokeText("★", (gx + 1) * size, (gy + 1) * size); pen.fillText("★", (gx + 1) * size, (gy + 1) * size);
      const last = path.length ? at(path[path.length - 1]) : [0, 0], reached = map.goal === map.cells[path[path.length - 1]];
      const place = where < 0 ? "" : `, largest in row ${at(where)[1] + 1}, column ${at(where)[0] + 1}: ${shown(largest)}`;
      figure.querySelector(".caption").textContent = `Episode ${shown(map.episodes[frame])}, step ${shown(map.steps[frame])}. ` + (layer
        ? `${layer.about[0].toUpperCase() + layer.about.slice(1)}: ${filled} of ${count} cells${place}. ` : `This run has no ${what.value}. `)
        + (reached ? "The greedy path ends at the reward." : `The greedy path ends in row ${last[1] + 1}, column ${last[0] + 1}.`);
      figure.dataset.frame = frame;
    }
    const show = () => { episode.textContent = shown(times[moment.value]); moment.setAttribute("aria-valuetext", "episode " + times[moment.value]); figures.forEach(draw); };
    let timer = null;
    function stop() { clearInterval(timer); timer = null; play.textContent = "▶ play"; play.setAttribute("aria-pressed", "false"); }
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (+moment.value >= +moment.max) moment.value = 0;
      play.textContent = "❚❚ pause"; play.setAttribute("aria-pressed", "true");
      timer = setInterval(() => {
        moment.value = +moment.value + 1;
        show();
        if (+moment.value >= +moment.max) stop();
      }, 120);
      return undefined;
    });
    moment.addEventListener("input", () => { if (timer) stop(); show(); });
    what.addEventListener("change", () => { bounds(); show(); });
    for (const figure of figures) {
      const canvas = figure.querySelector("canvas"), place = figure.querySelector(".cell");
      canvas.addEventListener("pointermove", event => {
        const map = data.maps[figure.dataset.map], size = Math.min(canvas.clientWidth / map.columns, 60);
        const x = Math.floor(event.offsetX / size), y = Math.floor(event.offsetY / size), s = map.place[y * map.columns + x];
        const layer = layerOf(map);
        place.textContent = x < map.columns && s >= 0 && layer
          ? `row ${y + 1}, column ${x + 1}: ${words(layer, layer.steps[frameAt(map) * map.cells.length + s])}` : "";
      });
    }
    redraws.push(() => { bounds(); show(); });
    moment.value = moment.max;
  }

  // ------------------------------------------------------------------ tables
  for (const place of document.querySelectorAll(".table")) {
    const grid = place.querySelector("table"), body = grid.tBodies[0], heads = [...grid.tHead.rows[0].cells];
    heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending", key = row => row.cells[i].dataset.value ?? row.cells[i].textContent;
      const number = text => text !== "" && !Number.isNaN(+text);
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (number(x) && number(y)) return x - y;
        return number(x) ? -1 : number(y) ? 1 : x.localeCompare(y, undefined, { numeric: true });
      };
      heads.forEach(other => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
    }));
    const scroll = place.querySelector(".scroll"), hint = place.querySelector(".hint");
    new ResizeObserver(() => { hint.hidden = scroll.scrollWidth <= scroll.clientWidth; }).observe(scroll);
    const copy = place.querySelector(".copy");
    copy.addEventListener("click", async () => {
      const text = [...grid.rows].map(row => [...row.cells].map(c => c.dataset.value ?? c.textContent.trim()).join("\t")).join("\n");
      place.dataset.copied = text;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const box = made("textarea", text);
        document.body.append(box); box.select(); document.execCommand("copy"); box.remove(); copy.focus();
      }
      copy.textContent = "copied";
      setTimeout(() => { copy.textContent = "copy"; }, 1500);
    });
  }

  const redraw = () => redraws.forEach(f => f());
  redraw();
  dark.addEventListener("change", redraw);
  let width = innerWidth, waiting = null;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth; clearTimeout(waiting); waiting = setTimeout(redraw, 100);
  });
  document.documentElement.dataset.ready = "yes";
})();
