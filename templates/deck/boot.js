// Charts when they come into view, the cells of a large deck when they are
// opened, sorting, filters, columns, CSV. The page is complete without this
// file: what failed, and every number that is compared, is in a table.
(function () {
  "use strict";
  var doc = document, root = doc.documentElement;
  var list = function (x) { return Array.prototype.slice.call(x); };
  var all = function (sel, from) { return list((from || doc).querySelectorAll(sel)); };
  var el = function (tag, props, kids) {
    var n = Object.assign(doc.createElement(tag), props || {});
    (kids || []).forEach(function (k) { n.append(k); });
    return n;
  };
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  // settled is when the page is up and the browser has nothing better to do.
  function settled() {
    return new Promise(function (done) {
      var idle = function () { window.requestIdleCallback ? requestIdleCallback(done, { timeout: 300 }) : setTimeout(done, 50); };
      if (doc.readyState === "complete") idle(); else window.addEventListener("load", idle);
    });
  }

  // --- data -----------------------------------------------------------------
  // Strict JSON: an object, or in a large deck a string that holds it packed.
  var data = {}, figures = {};
  function unpack(text) {
    // Base 85: five characters from ! are four bytes, z is four zeros. Those that
    // may not stand in a script element are others.
    var bytes = new Uint8Array(text.length * 4), size = 0, n = 0, k = 0, other = { v: 34, w: 92, x: 60, y: 62, "{": 38 };
    for (var i = 0; i < text.length; i++) {
      if (text[i] === "z") { size += 4; continue; }
      n = n * 85 + (other[text[i]] || text.charCodeAt(i)) - 33;
      if (++k === 5) { for (; k > 1; k--) bytes[size++] = n >>> 8 * (k - 2); k = n = 0; }
    }
    if (k) { // the last bytes, whose missing characters are the highest
      for (i = k; i < 5; i++) n = n * 85 + 84;
      for (i = 3; i > 4 - k; i--) bytes[size++] = n >>> 8 * i;
    }
    bytes = bytes.subarray(0, size);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text().then(JSON.parse);
  }
  function take(d) {
    data = d;
    (d.shapes || []).forEach(function (s) { s.figures.forEach(function (f) { figures[f.id] = f; }); });
  }
  var node = doc.getElementById("deck-data"), loaded = Promise.resolve();
  if (node) {
    var first = JSON.parse(node.textContent);
    if (typeof first === "string") {
      loaded = settled().then(function () {
        if (!("DecompressionStream" in window)) throw new Error("this browser cannot unpack it");
        return unpack(first);
      }).then(take);
    } else take(first);
  }
  var trouble = function (e) {
    all(".shapes, .cells.lazy").forEach(function (d) {
      d.append(el("p", { className: "problem", textContent: "The page's data could not be read: " + e.message + ". The tables above and the JSON file beside this page hold the numbers." }));
    });
  };

  // --- numbers, as the program words them -----------------------------------
  var MINUS = "\u2212";
  function grouped(v, digits) {
    if (Math.abs(v) >= 1e15) return v.toExponential(4).replace("-", MINUS);
    var s = Math.abs(v).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" });
    return (v < 0 && /[1-9]/.test(s) ? MINUS : "") + s;
  }
  function fixed(v, d) { return v.toFixed(Math.min(d, 100)); }
  function digitsFor(known, v) {
    var has = known !== null && known !== undefined, d = has ? known : 0;
    var whole = v === Math.trunc(v) && Math.abs(v) < 1e15;
    if (v === 0 || (whole && (!has || d === 0 || d >= 4))) return 0;
    var size = Math.floor(Math.log10(Math.abs(v)));
    if (has && d < 4 && size >= 0) return Math.max(Math.min(d, 4 - size), 0);
    var n = d, need = size >= 0 ? 4 - size : 2 - size;
    if (need > n) { n = Math.min(need, 12); while (n > d && fixed(v, n).endsWith("0")) n--; }
    while (!whole && n < 12 && fixed(v, n).endsWith("." + "0".repeat(n))) n++;
    return n;
  }
  function rounded(known, v) { return grouped(v, digitsFor(known, v)); }
  function plain(v) { var s = String(v); return /e/.test(s) ? v.toFixed(12).replace(/0+$/, "") : s; }
  function bound(v) { return grouped(v, Math.min((plain(v).split(".")[1] || "").length, 9)); }
  function besides(known, v, limit) {
    var s = rounded(known, v), other = bound(limit), d = digitsFor(known, v);
    var same = function () { return s === other || (s.indexOf(".") >= 0 && s.replace(/0+$/, "").replace(/\.$/, "") === other); };
    for (; v !== limit && same() && d < 15; d++) s = grouped(v, d + 1);
    return s;
  }
  function percent(v) {
    var a = Math.abs(v), d = a >= 100 ? 0 : a < 1 && a > 0 ? Math.min(1 - Math.floor(Math.log10(a)), 6) : 1;
    return (v > 0 ? "+" : "") + grouped(v, d) + " %";
  }
  function wanted(spec, limit, unit) {
    var w = limit === null ? "?" : bound(limit), u = unit ? " " + unit : "";
    switch (spec[1]) {
      case "min": case "min_tok_s": return "\u2265 " + w + u;
      case "max": case "max_ms": return "\u2264 " + w + u;
      case "within": return w + " \u00b1 " + (spec[2] === null ? "" : bound(spec[2])) + " %" + u;
      case "min_ratio": return "\u2265 " + w + " \u00d7 " + spec[3];
      case "info": return "recorded";
    }
    return spec[1] || "\u2014";
  }

  // --- tables made here -----------------------------------------------------
  function table(caption, head, rows) {
    var t = el("table", {}, [el("caption", { textContent: caption })]);
    var h = el("tr");
    head.forEach(function (c) { h.append(el("th", { scope: "col", className: c[1] || "", textContent: c[0] })); });
    t.append(el("thead", {}, [h]));
    var b = el("tbody");
    rows.forEach(function (r) {
      var tr = el("tr", { className: r.state || "" });
      r.cells.forEach(function (c) {
        if (typeof c === "string") c = { text: c };
        var td = el("td", { className: c.cls || "" });
        if (c.title) td.title = c.title;
        if (c.mark) td.append(el("span", { className: "s " + c.mark[0], textContent: c.mark[1] })); else td.textContent = c.text;
        tr.append(td);
      });
      b.append(tr);
    });
    t.append(b);
    var box = el("div", { className: "tw", tabIndex: 0 }, [t]);
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", caption);
    return box;
  }
  var words = { na: ["na", "n/a"], record: ["record", "record only"], would: ["warn", "would fail"], error: ["error", "no result"] };
  var WAIVED = " (waived)";
  function mark(s) {
    if (s.endsWith(WAIVED)) { var m = mark(s.slice(0, -WAIVED.length)); return [m[0], m[1] + WAIVED]; }
    return words[s] || [/^(pass|fail|invalid|info|skipped)$/.test(s) ? s : "warn", s];
  }
  var dash = { text: "\u2014", cls: "n dim" };

  // fill shows everything of one cell of a large deck.
  function fill(card, i) {
    if (card.dataset.full) return;
    card.dataset.full = "1";
    var c = data.cells[i], body = card.querySelector(".body");
    if (!body) { body = el("div", { className: "body" }); card.append(body); }
    all(".tw, h3", body).forEach(function (n) { n.remove(); });
    body.prepend(el("p", { className: "mono", textContent: c[0] }));
    var name = card.querySelector("strong").textContent, gated = {}, hosts = c[2].length > 1;
    var thin = (data.thin || []).indexOf(i) >= 0, weight = function (m) { return thin && /^p99_/.test(data.names[m]) ? "n dim" : "n"; };
    c[3].forEach(function (g) {
      var values = c[2].filter(function (h) { return h[0] === g[0]; })[0] || c[2][0], line = 0, rows = [];
      g[1].forEach(function (si, k) {
        var spec = data.specs[si], m = spec[0], odd = g[7][k] || ["", "", null], limit = g[2][k], state = g[3][k], unit = data.units[m];
        var got = g[7][k] ? odd[2] : values ? values[1][m] : null;
        gated[m] = true;
        line += g[6][k];
        var lost = /^(fail|invalid)/.test(state);
        rows.push({ bad: lost || state === "would" ? 0 : 1, state: mark(state)[0], cells: [
          { mark: mark(state) }, { text: data.labels[m], title: data.names[m] },
          got === null || got === undefined ? (odd[1] ? { text: odd[1], cls: "n bad", title: "not usable as a number" } : dash) :
            { text: (limit !== null && spec[1] !== "min_ratio" ? besides(data.digits[m], got, limit) : rounded(data.digits[m], got)) + (unit ? " " + unit : ""), cls: weight(m), title: String(got) },
          { text: wanted(spec, limit, unit), cls: "n", title: limit === null ? "" : String(limit) },
          g[4][k] === null ? dash : { text: percent(g[4][k]), cls: g[4][k] < 0 && lost ? "n bad" : "n" },
          line ? { text: String(line), cls: "n" } : dash, { text: odd[0], cls: "w" }] });
      });
      rows.sort(function (a, b) { return a.bad - b.bad; });
      body.append(el("h3", { textContent: "Gates, set in " + (data.files[g[5]] || "\u2014") + (hosts ? ", on " + g[0] : "") }));
      body.append(table("Gates of " + name, [["Status"], ["Metric"], ["Measured", "n"], ["Gate", "n"], ["Margin", "n"], ["Line", "n"], ["Reason"]], rows));
    });
    c[2].forEach(function (h) {
      var rows = [];
      h[1].forEach(function (v, m) {
        var odd = h[2][m];
        if (gated[m] || (v === null && !odd)) return;
        var unit = data.units[m];
        rows.push({ cells: [{ text: data.labels[m], title: data.names[m] },
          v === null ? (odd[0] ? { text: odd[0], cls: "n bad", title: "not usable as a number" } : dash) : { text: rounded(data.digits[m], v) + (unit ? " " + unit : ""), cls: weight(m), title: String(v) },
          { text: odd ? odd[1] : data.origins[m], cls: "w dim" }] });
      });
      if (!rows.length) return;
      body.append(el("h3", { textContent: "Other metrics" + (hosts ? " on " + h[0] : "") }));
      body.append(table("Metrics without a gate of " + name, [["Metric"], ["Value", "n"], ["Origin"]], rows));
    });
    var a = c[4][c[4].length - 1];
    if (a) {
      if (data.servers[a[4]]) body.append(el("p", { textContent: "Server" + (a[5] ? ", start " + a[5] + " of the run" : "") + (a[6] ? ", had served before" : "") }), el("pre", { tabIndex: 0, textContent: data.servers[a[4]] }));
      if (a[7]) body.append(el("p", { textContent: "Client" + (a[3] === null ? "" : ", exit status " + a[3]) }), el("pre", { tabIndex: 0, textContent: a[7] }));
    }
  }

  // --- charts ---------------------------------------------------------------
  var drawn = [];
  function axis(v) { return v.toLocaleString("en-US", { maximumFractionDigits: 4 }); }
  function number(v) { return v === null || v === undefined || v === "-" ? "no value" : rounded(2, v); }

  // An option comes as plain data without points. What cannot be said in JSON
  // (functions), or follows the reader's light or dark setting, is added here.
  function dress(f) {
    var css = getComputedStyle(root), v = function (n) { return css.getPropertyValue("--" + n).trim(); };
    var o = JSON.parse(JSON.stringify(data.options[f.kind])), font = css.fontFamily, front = f.kind === "front", quantile = f.kind === "quantile";
    var label = { color: v("mute"), fontSize: 11, fontFamily: font };
    var ticks = f.points.map(function (p) { return p[0]; });
    o.backgroundColor = "transparent";
    o.textStyle = { fontFamily: font, color: v("soft") };
    (o.xAxis || []).forEach(function (ax) {
      if (front || quantile) {
        ax.axisLabel = label;
        ax.axisTick = { lineStyle: { color: v("line2") } };
      } else {
        ax.logBase = 2; ax.min = f.x[0]; ax.max = f.x[1];
        ax.axisLabel = Object.assign({ hideOverlap: true, customValues: ticks, formatter: function (n) { return String(Math.round(n)); } }, label);
        ax.axisTick = { customValues: ticks, lineStyle: { color: v("line2") } };
      }
      ax.axisLine = { lineStyle: { color: v("line2") } };
      ax.nameTextStyle = label;
      ax.splitLine = { show: false };
      ax.minorTick = { show: false };
    });
    (o.yAxis || []).forEach(function (ax) {
      ax.axisLabel = Object.assign({ formatter: axis }, label);
      ax.nameTextStyle = Object.assign({ align: "left" }, label);
      ax.splitLine = { lineStyle: { color: v("grid") } };
      ax.axisLine = { show: false };
      ax.axisTick = { show: false };
    });
    var point = function (keep, y) {
      return f.points.filter(keep).map(function (p) { return { value: [p[0], p[y]], name: p[4] || "" }; });
    };
    var any = function () { return true; }, is = function (w) { return function (p) { return p[3] === w; }; };
    o.series = (o.series || []).map(function (s) {
      var role = s.name, color = v(role === "gate" ? "gate" : role === "bad" ? "bar-fail" : "series");
      if (role === "gate") s.data = f.points.map(function (p) { return { value: [p[0], p[3] === "off" ? null : p[2]] }; });
      else if (role === "bad") s.data = point(is("bad"), 1);
      else if (role === "front") s.data = point(function (p) { return p[5]; }, 1);
      else s.data = point(any, 1);
      s.itemStyle = { color: color };
      var dots = role === "bad" || (front && role === "value");
      s.lineStyle = role === "gate" ? { color: color, width: 1.5, type: [5, 4] } : dots ? { width: 0, opacity: 0 } : { color: color, width: 2 };
      s.z = role === "bad" ? 5 : role === "gate" ? 2 : 3;
      s.emphasis = { disabled: true };
      return s;
    }).filter(function (s) { return s.name === "value" || s.data.some(function (d) { return d.value[1] !== null; }); });
    // From the least to the most of the repeats: a line with a cap at either end.
    if (f.range) {
      o.series.push({ type: "line", name: "range", data: [].concat.apply([], f.range.map(function (r) { return [[r[0], r[1]], [r[0], r[2]], [r[0], null]]; })), connectNulls: false,
        symbol: "rect", symbolSize: [9, 1.5], itemStyle: { color: v("series") }, lineStyle: { color: v("series"), width: 1.5 }, z: 4, emphasis: { disabled: true } });
    }
    if (oneScale && !quantile) {
      (o.yAxis || []).forEach(function (ax) { ax.max = top(f, 1); });
      if (front) (o.xAxis || []).forEach(function (ax) { ax.max = top(f, 0); });
    }
    // Other runs, told apart by dashes and marks and not by colour alone.
    (f.also || []).forEach(function (a, i) {
      if (quantile) {
        var tone = v(["series", "also0", "gate", "also1"][i % 4]);
        o.series.push({ type: "line", name: a.label, data: a.points, symbol: "none", itemStyle: { color: tone }, lineStyle: { color: tone, width: 1.5, type: i > 3 ? [6, 3] : "solid" },
          endLabel: { show: true, formatter: "{a}", color: tone, fontFamily: font, fontSize: 11 }, labelLayout: { moveOverlap: "shiftY" }, emphasis: { disabled: true } });
        return;
      }
      var color = v("also" + i % 2);
      o.series.push({ type: "line", name: a.label, data: a.points.map(function (p) { return { value: p, name: a.label }; }), step: front ? "end" : false,
        symbol: i % 2 ? "triangle" : "emptyRect", symbolSize: 6, itemStyle: { color: color }, lineStyle: { color: color, width: 1.5, type: i % 2 ? [2, 3] : [8, 4] }, z: 1, emphasis: { disabled: true } });
    });
    o.tooltip = Object.assign({}, o.tooltip, {
      // Drawn on the canvas: an HTML tooltip needs style attributes, which the
      // page's policy forbids.
      renderMode: "richText",
      backgroundColor: v("panel"), borderColor: v("line2"), borderWidth: 1,
      textStyle: { color: v("text"), fontSize: 12, fontFamily: font },
      axisPointer: { type: "line", snap: true, lineStyle: { color: v("line2"), type: "solid" }, label: { show: false } },
      formatter: function (ps) {
        if (front) return ps.name + "\n" + number(ps.value[0]) + " tok/s per user\n" + number(ps.value[1]) + " tok/s per GPU";
        if (quantile) return [number(ps[0].value[0]) + " % of requests within"].concat(ps.map(function (p) { return "concurrency " + p.seriesName + ": " + number(p.value[1]) + " " + f.unit; })).join("\n");
        var lines = ["Concurrency " + ps[0].value[0]];
        ps.forEach(function (p) {
          if (p.seriesName === "bad" || p.seriesName === "range") return;
          lines.push((p.seriesName === "gate" ? "Gate" : p.seriesName === "value" ? f.label : p.seriesName) + "  " + number(p.value[1]) + " " + f.unit);
        });
        (f.range || []).forEach(function (r) { if (r[0] === ps[0].value[0]) lines.push("Repeats  " + number(r[1]) + " to " + number(r[2]) + " " + f.unit); });
        return lines.join("\n");
      }
    });
    return o;
  }

  // One scale for the charts of one metric of all shapes, when a reader asks for
  // it: top is its end, for the axis of values (1) or that of the front's x (0).
  var oneScale = false;
  function top(f, axis) {
    var most = 0;
    (data.shapes || []).forEach(function (s) {
      s.figures.forEach(function (x) {
        if (x.kind !== f.kind || x.metric !== f.metric) return;
        if (s.cells) resolve(s, x);
        x.points.forEach(function (p) { most = Math.max(most, p[axis] || 0, axis && p[3] !== "off" ? p[2] || 0 : 0); });
        if (axis) (x.range || []).forEach(function (r) { most = Math.max(most, r[2]); });
        (x.also || []).forEach(function (a) { a.points.forEach(function (p) { most = Math.max(most, p[axis]); }); });
      });
    });
    var step = Math.pow(10, Math.floor(Math.log10(most || 1))) / 2;
    return Math.ceil(most / step) * step || null;
  }
  function scales(section) {
    var b = el("button", { type: "button", className: "b scale", textContent: "One scale for all shapes" });
    var set = function (on) {
      oneScale = on;
      all(".scale").forEach(function (x) { x.setAttribute("aria-pressed", on); });
      redraw();
    };
    b.setAttribute("aria-pressed", false);
    b.addEventListener("click", function () { set(!oneScale); remember("charts", "y", oneScale ? "1" : ""); });
    section.querySelector(".shapes, h3.shape, .pair").before(b);
    views.charts = function (p) { if ((p.get("charts.y") === "1") !== oneScale) set(!oneScale); };
  }

  // library evaluates the chart library and goes on: its text is in the page and
  // the policy knows its hash, or it is a file that pages share.
  var waiting = null;
  function library(then) {
    var code = doc.getElementById("charts-code");
    if (window.echarts || !code) return then();
    if (!code.dataset.src) {
      doc.body.append(el("script", { textContent: code.textContent }));
      code.remove();
      return then();
    }
    if (waiting) return waiting.push(then);
    waiting = [then];
    var s = el("script", { src: code.dataset.src });
    if (location.protocol !== "file:") s.integrity = code.dataset.integrity;
    s.onload = s.onerror = function () { code.remove(); waiting.forEach(function (f) { f(); }); };
    doc.body.append(s);
  }
  function draw(n) {
    if (n.dataset.drawn) return;
    n.dataset.drawn = "1";
    library(function () {
      try {
        if (!window.echarts) throw new Error("the chart library is not there");
        var f = figures[n.id], chart = echarts.init(n, null, { renderer: "canvas" });
        chart.setOption(dress(f));
        drawn.push({ chart: chart, data: f });
      } catch (e) {
        n.textContent = "This chart could not be drawn (" + e.message + "). Its data is in the table below.";
        var d = n.parentNode.querySelector("details");
        if (d) d.open = true;
      }
    });
  }
  function redraw() { drawn.forEach(function (d) { d.chart.setOption(dress(d.data), true); }); }

  var seen = "IntersectionObserver" in window ? new IntersectionObserver(function (entries) {
    entries.forEach(function (e) { if (e.isIntersecting) { seen.unobserve(e.target); draw(e.target); } });
  }, { rootMargin: "200px" }) : null;
  function show(n) {
    n.hidden = false;
    var d = n.parentNode.querySelector("details");
    if (d) d.open = false;
    if (seen) seen.observe(n); else draw(n);
  }
  all(".chart").forEach(show);

  // The points of a large deck say where their cell holds their numbers.
  function resolve(shape, f) {
    var cell = function (r) { return data.cells[shape.cells[r[0]]]; }, m = data.names.indexOf(f.metric);
    var value = function (r, k) { return r instanceof Array ? cell(r)[2][r[1]][1][k] : r; };
    f.points.forEach(function (p) {
      if (p[0] instanceof Array) p[0] = 1000 / value(p[0], data.names.indexOf("mean_tpot_ms"));
      p[1] = value(p[1], m);
      if (p[2] instanceof Array) p[2] = cell(p[2])[3][p[2][1]][2][p[2][2]];
    });
  }

  // build makes the figures of a shape of a large deck.
  function build(box, shape) {
    if (box.childNodes.length) return;
    shape.figures.forEach(function (f) {
      resolve(shape, f);
      var chart = el("div", { className: "chart", id: f.id }), known = f.digits;
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", shape.title + ", " + f.title + ": " + f.points.map(function (p) { return p[1] === null ? "" : rounded(known, p[1]) + (f.kind === "front" ? " at " + number(p[0]) + " tok/s per user" : " at " + p[0]); }).filter(Boolean).join(", "));
      var legend = el("div", { className: "legend" }, [el("span", {}, [el("i"), f.label])]);
      if (f.gate) legend.append(el("span", {}, [el("i", { className: "gate" }), f.gate]));
      (f.also || []).forEach(function (a, i) { legend.append(el("span", {}, [el("i", { className: "also" + i }), a.label])); });
      if (f.rangeLabel) legend.append(el("span", {}, [el("i", { className: "range" }), f.rangeLabel]));
      if (f.points.some(function (p) { return p[3] === "bad"; })) legend.append(el("span", {}, [el("i", { className: "bad" }), f.kind === "front" ? "A gate of the cell failed" : "Fails its gate"]));
      var fig = el("figure", { className: "panel" }, [el("figcaption", {}, [f.title + " ", el("small", { textContent: f.unit })]), legend, chart]);
      if (f.blank) chart.remove();
      [f.gaps, f.off, f.thin].forEach(function (w) { if (w) fig.append(el("p", { className: "gap", textContent: w })); });
      var rows = f.points.map(function (p) {
        return { cells: [{ text: f.kind === "front" ? number(p[0]) : grouped(p[0], 0), cls: "n", title: String(p[0]) },
          p[1] === null ? dash : { text: rounded(known, p[1]), cls: p[3] === "bad" ? "n bad" : "n", title: String(p[1]) },
          f.kind === "front" ? { text: p[4] } : p[2] === null ? dash : { text: f.sign + " " + bound(p[2]), cls: "n", title: String(p[2]) }] };
      });
      var head = f.kind === "front" ? [["tok/s per user", "n"], [f.label, "n"], ["Cell"]] : [["Concurrency", "n"], [f.label, "n"], ["Gate", "n"]];
      fig.append(el("details", {}, [el("summary", { textContent: "Data of this chart" }), table("Data of the chart " + f.title, head, rows)]));
      box.append(fig);
      figureTools(fig);
      if (!f.blank) show(chart);
    });
  }

  dark.addEventListener("change", redraw);
  window.addEventListener("resize", function () { drawn.forEach(function (d) { d.chart.resize(); }); });
  // On paper everything that is on the page is open and drawn, and as it was
  // before afterwards.
  var closed = [];
  window.addEventListener("beforeprint", function () {
    doc.body.classList.add("printing"); // what is not laid out has no size to draw in
    all(".chart").forEach(draw);
    closed = all(".cells > details:not([open])").filter(function (d) { return d.querySelector(".body"); });
    closed.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () { doc.body.classList.remove("printing"); closed.forEach(function (d) { d.open = false; }); });

  // --- tables ---------------------------------------------------------------
  // The exact value of a field: written beside it, or in the page's data at the
  // row's cell and the column's metric.
  function raw(td) {
    if (td.hasAttribute("data-v")) return td.getAttribute("data-v");
    var e = exactOf(td);
    if (e !== undefined) return e;
    var t = td.textContent.trim().replace(/\s+/g, " ");
    return /^[\d,]+(\.\d+)?$/.test(t) && td.tagName === "TD" ? t.replace(/,/g, "") : t;
  }
  function exactOf(td) {
    var th = td.closest("table").tHead.rows[0].cells[td.cellIndex], m = th && th.dataset.m, i = td.parentNode.cvsRow;
    if (m === undefined || i === undefined || !data.cells) return undefined;
    if (m === "key") return data.cells[i][0];
    var h = data.cells[i][2][0], v = h && h[1][+m];
    return v === null || v === undefined ? undefined : String(v);
  }
  function stateOf(r) {
    return r.dataset.state || (r.className ? "" : r.parentNode.dataset.state || "");
  }

  // A number, or the seconds of a duration in words; NaN for anything else.
  function magnitude(t) {
    if (t === "") return NaN;
    var m = /^([+\u2212]?)([\d,.]+) %( |$)/.exec(t);
    if (m) return (m[1] === MINUS ? -1 : 1) * m[2].replace(/,/g, "");
    var d = /^(?:(\d+) h )?(?:(\d+) min ?)?(?:([\d.]+) (m?)s)?$/.exec(t);
    return d ? 3600 * (d[1] || 0) + 60 * (d[2] || 0) + (d[3] || 0) / (d[4] ? 1000 : 1) : +t;
  }
  function showAll(table) { table.classList.add("all"); }
  function sortBy(table, col, up) {
    showAll(table);
    var th = table.tHead.rows[0].cells[col], body = table.tBodies[0];
    all("thead th", table).forEach(function (t) { t.removeAttribute("aria-sort"); });
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    var rows = list(body.rows).map(function (r, i) {
      var t = raw(r.cells[col]), s = r.cells[col].dataset.sort, n = s !== undefined ? +s : magnitude(t);
      return { r: r, i: i, t: t, n: n };
    });
    rows.sort(function (a, b) {
      var an = isNaN(a.n), bn = isNaN(b.n);
      // What has no value comes last, whichever way the column is sorted.
      if (th.classList.contains("n") && an !== bn) return an ? 1 : -1;
      var c = !an && !bn ? a.n - b.n : a.t < b.t ? -1 : a.t > b.t ? 1 : 0;
      return (up ? c : -c) || a.i - b.i;
    });
    rows.forEach(function (x) { body.appendChild(x.r); });
  }

  // A spreadsheet takes a text that starts with one of these for a formula.
  // Numbers, negative ones included, stay numbers.
  function field(s) {
    if (/^[\s]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(s) && !/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(s)) s = "'" + s;
    return /[",\r\n]/.test(s) || s !== s.trim() ? '"' + s.replace(/"/g, '""') + '"' : s;
  }
  function csv(table) {
    var pick = function (row) {
      return list(row.cells).filter(function (c) { return !c.classList.contains("barcell") && !c.hidden; })
        .map(function (c) { return field(raw(c)); }).join(",");
    };
    return [table.tHead.rows[0]].concat(list(table.tBodies[0].rows).filter(function (r) { return !r.hidden; }))
      .map(pick).join("\r\n") + "\r\n";
  }
  function save(name, text) {
    var a = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: name });
    doc.body.appendChild(a); a.click(); a.remove();
    setTimeout(function () { URL.revokeObjectURL(a.href); }, 1000);
  }
  function figureTools(fig) {
    var t = fig.querySelector("table"), d = fig.querySelector("details"), n = fig.querySelector(".chart");
    if (!t || !d || !n) return;
    var b = el("button", { type: "button", className: "b", textContent: "Save as CSV" });
    b.addEventListener("click", function () { save(n.id + ".csv", csv(t)); });
    d.append(b);
  }
  all("figure").forEach(figureTools);

  // --- state of the tables in the address -----------------------------------
  // #anchor?table.q=words&table.s=state&table.o=column&table.h=columns
  var views = {};
  function params() {
    var i = location.hash.indexOf("?");
    return { anchor: i < 0 ? location.hash.slice(1) : location.hash.slice(1, i), p: new URLSearchParams(i < 0 ? "" : location.hash.slice(i + 1)) };
  }
  function remember(id, key, value) {
    var h = params();
    if (value) h.p.set(id + "." + key, value); else h.p.delete(id + "." + key);
    var q = h.p.toString();
    try { history.replaceState(null, "", "#" + h.anchor + (q ? "?" + q : "")); } catch (e) { /* some browsers refuse it for files */ }
  }

  function tools(table) {
    var bar = el("div", { className: "tools" }), rows = list(table.tBodies[0].rows), name = table.caption.textContent, id = table.id;
    var text = null, pick = null, heads = list(table.tHead.rows[0].cells), hiddenCols = [], choices = [];
    var apply = function () {};
    rows.forEach(function (r, i) { r.cvsRow = i; });
    if (rows.length > 1) {
      text = el("input", { type: "search", placeholder: "Filter rows", autocomplete: "off" });
      text.setAttribute("aria-label", "Filter: " + name);
      var states = [];
      rows.forEach(function (r) { var s = stateOf(r); if (s && states.indexOf(s) < 0) states.push(s); });
      pick = el("select");
      pick.setAttribute("aria-label", "Status: " + name);
      pick.append(el("option", { value: "", textContent: "Every status" }));
      states.forEach(function (s) { pick.append(el("option", { value: s, textContent: s })); });
      var count = el("output", { textContent: rows.length + " rows" });
      apply = function () {
        showAll(table);
        var words = text.value.toLowerCase().split(/\s+/).filter(Boolean), n = 0, state = pick.value;
        rows.forEach(function (r) {
          var ok = (!state || stateOf(r) === state) && choices.every(function (c) { return !c[1].value || raw(r.cells[c[0]]) === c[1].value; });
          if (ok && words.length) { var t = r.textContent.toLowerCase(); ok = words.every(function (w) { return t.indexOf(w) >= 0; }); }
          if (r.hidden === ok) r.hidden = !ok;
          if (ok) n++;
        });
        count.textContent = n + " of " + rows.length + " rows";
      };
      heads.forEach(function (th, k) {
        if (!("f" in th.dataset)) return;
        var values = [];
        rows.forEach(function (r) { var v = raw(r.cells[k]); if (values.indexOf(v) < 0) values.push(v); });
        if (values.length < 2) return;
        var label = th.textContent, c = el("select");
        c.setAttribute("aria-label", label + ": " + name);
        c.append(el("option", { value: "", textContent: "Every " + label.replace(/^[A-Z](?=[a-z])/, function (x) { return x.toLowerCase(); }) }));
        values.sort().forEach(function (v) { c.append(el("option", { value: v, textContent: v })); });
        c.addEventListener("change", function () { apply(); remember(id, "f" + k, c.value); });
        choices.push([k, c]);
      });
      text.addEventListener("input", function () { apply(); remember(id, "q", text.value); });
      pick.addEventListener("change", function () { apply(); remember(id, "s", pick.value); });
      bar.append(text);
      if (states.length > 1) bar.append(pick);
      choices.forEach(function (c) { bar.append(c[1]); });
      bar.append(count);
    }
    bar.append(el("span", { className: "grow" }));
    function hide(cols) {
      hiddenCols = cols;
      [table.tHead.rows[0]].concat(rows).forEach(function (r) { list(r.cells).forEach(function (c, k) { var h = cols.indexOf(k) >= 0; if (c.hidden !== h) c.hidden = h; }); });
    }
    var boxes = [];
    if (heads.length > 8) {
      var menu = el("div", { className: "menu" });
      heads.forEach(function (th, k) {
        if (!k) return; // the row's name stays
        var unit = th.querySelector("small"), label = (th.firstChild ? th.firstChild.textContent : "Column " + (k + 1)) + (unit ? " " + unit.textContent : "");
        var box = el("input", { type: "checkbox", checked: true });
        box.addEventListener("change", function () {
          hide(boxes.map(function (b, j) { return b.checked ? -1 : j + 1; }).filter(function (j) { return j > 0; }));
          remember(id, "h", hiddenCols.join("."));
        });
        boxes.push(box);
        menu.append(el("label", {}, [box, label]));
      });
      bar.append(el("details", { className: "columns" }, [el("summary", { textContent: "Columns" }), menu]));
    }
    var b = el("button", { type: "button", className: "b", textContent: "Save as CSV" });
    b.addEventListener("click", function () { loaded.finally(function () { save(id + ".csv", csv(table)); }); });
    bar.append(b);
    var box = table.closest(".tw");
    box.parentNode.insertBefore(bar, box);
    heads.forEach(function (th, col) {
      if (th.classList.contains("barcell")) return;
      var s = el("button", { type: "button" });
      while (th.firstChild) s.append(th.firstChild);
      th.append(s);
      s.addEventListener("click", function () {
        var up = th.getAttribute("aria-sort") !== "ascending";
        loaded.finally(function () { sortBy(table, col, up); });
        remember(id, "o", col + (up ? "" : "-"));
      });
    });
    views[id] = function (p) {
      var q = p.get(id + ".q"), s = p.get(id + ".s"), o = /^(\d{1,3})(-?)$/.exec(p.get(id + ".o") || ""), h = p.get(id + ".h");
      var f = choices.filter(function (c) { var v = p.get(id + ".f" + c[0]); if (v !== null) c[1].value = v; return v !== null; });
      if (text && (q !== null || s !== null || f.length)) { text.value = q || ""; pick.value = s || ""; apply(); }
      if (o && +o[1] < heads.length) loaded.finally(function () { sortBy(table, +o[1], !o[2]); });
      if (h && boxes.length) {
        hide(h.split(".").map(Number).filter(function (k) { return k > 0 && k < heads.length; }));
        boxes.forEach(function (x, j) { x.checked = hiddenCols.indexOf(j + 1) < 0; });
      }
    };
  }
  // The address of a section, to be copied.
  all("section[id] > h2").forEach(function (h) {
    var a = el("a", { className: "here", href: "#" + h.parentNode.id, textContent: "#" });
    a.setAttribute("aria-label", "Link to " + h.firstChild.textContent);
    h.append(a);
  });

  // A table that gets no tools takes nothing from the others.
  all("table[data-tools]").forEach(function (t) {
    try { tools(t); } catch (e) {
      t.closest(".tw").before(el("p", { className: "problem", textContent: "This table cannot be filtered or saved: " + e.message + "." }));
      console.error(e);
    }
  });
  // The rows that were not laid out at first, one table at a time; all of them
  // before somebody searches the page.
  var whole = loaded;
  if (doc.body.classList.contains("large")) {
    whole = all("table[data-tools]").reduce(function (before, t) { return before.then(settled).then(function () { showAll(t); }); }, loaded.catch(function () {}));
    window.addEventListener("keydown", function (e) { if (e.key === "F3" || (e.key === "f" && (e.ctrlKey || e.metaKey))) all("table[data-tools]").forEach(showAll); });
  }
  // Where there is more than one chart of a metric.
  loaded.then(function () {
    ["charts", "interactivity"].forEach(function (id) {
      var section = doc.getElementById(id), kind = id === "charts" ? "line" : "front";
      var n = (data.shapes || []).filter(function (s) { return s.figures.some(function (f) { return f.kind === kind; }); }).length;
      var fronts = section ? all("figure", section).length : 0;
      if (section && (id === "charts" ? n > 1 : n > 1 || fronts > 1)) scales(section);
    });
    restore();
  }).catch(function () {}); // said elsewhere
  function restore() { var p = params().p; for (var id in views) views[id](p); }

  // Exact values on hover, where they are in the page's data.
  doc.addEventListener("mouseover", function (e) {
    var td = e.target.closest && e.target.closest("td");
    if (!td || td.title || !td.closest("table[data-tools]")) return;
    var x = exactOf(td);
    if (x !== undefined) td.title = x;
  });

  // --- what opens -----------------------------------------------------------
  function openable(d, make) {
    d.addEventListener("toggle", function () { if (d.open) make(); });
    if (d.open) make();
  }
  // cards makes the cards of a large deck's cells that are not part of the page,
  // and leads to them from the results.
  function cards() {
    var box = doc.querySelector(".cells.lazy");
    if (!box || box.dataset.full) return;
    box.dataset.full = "1";
    var next = box.firstElementChild;
    data.cells.forEach(function (c, i) {
      var x = c[5], card = next;
      if (x) {
        var s = mark(c[1]), row = doc.getElementById(x[0]);
        if (row) {
          row.removeAttribute("id"); // the card takes it
          row.cells[0].replaceChildren(el("a", { href: "#" + x[0], textContent: x[1] }));
        }
        card = el("details", { id: x[0] }, [el("summary", {}, [el("span", { className: "s " + s[0], textContent: s[1] }), el("strong", { textContent: x[1] }),
          el("small", { textContent: x[2] }), el("i", { textContent: x[3] })])]);
        box.insertBefore(card, next);
      } else next = next && next.nextElementSibling;
      if (card) openable(card, function () { fill(card, i); });
    });
  }
  loaded.then(function () {
    all(".shapes").forEach(function (box) {
      var section = box.closest("section").id;
      data.shapes.filter(function (s) { return s.section === section; }).forEach(function (shape, i) {
        var pair = el("div", { className: "pair" }), d = el("details", { className: "panel shape", open: !i && section === "charts" }, [el("summary", { textContent: shape.title }), pair]);
        box.append(d);
        openable(d, function () { build(pair, shape); });
      });
    });
    if (!seen) return cards();
    var near = new IntersectionObserver(function (entries) {
      if (entries.some(function (e) { return e.isIntersecting; })) { near.disconnect(); cards(); }
    }, { rootMargin: "800px" });
    all("#results, .cells.lazy").forEach(function (n) { near.observe(n); });
  }).catch(trouble);

  // --- links into closed cells ----------------------------------------------
  function reveal() {
    if (doc.querySelector(".cells.lazy") && /^cell-/.test(params().anchor)) loaded.then(cards).catch(function () {}).then(find); else find();
  }
  function find() {
    var id = decodeURIComponent(params().anchor), n = id && doc.getElementById(id);
    for (; n; n = n.parentElement) if (n.tagName === "DETAILS") n.open = true;
    n = id && doc.getElementById(id);
    if (n && n.closest("table")) showAll(n.closest("table"));
    if (n) n.scrollIntoView();
  }
  window.addEventListener("hashchange", function () { restore(); reveal(); });
  restore();
  if (location.hash) reveal();

  // How old a list is can only be said when it is read.
  all("[data-newest]").forEach(function (n) {
    var days = Math.floor((Date.now() - Date.parse(n.dataset.newest)) / 864e5);
    if (days >= 7) { n.classList.add("old"); n.textContent += " That is " + days + " days ago: this list may be out of date."; }
  });

  // For the console and for tests.
  window.cvsDeck = { csv: csv, field: field, charts: drawn, ready: loaded, whole: whole, data: function () { return data; },
    rounded: rounded, bound: bound, besides: besides, percent: percent };
})();
