// Charts when they come into view, sorting, filters, CSV. The page is complete
// without this file: every number it touches is already in a table.
(function () {
  "use strict";
  var doc = document, root = doc.documentElement;
  var all = function (sel, from) { return Array.prototype.slice.call((from || doc).querySelectorAll(sel)); };
  var el = function (tag, props) { return Object.assign(doc.createElement(tag), props || {}); };
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  // --- charts ---------------------------------------------------------------
  var drawn = [];

  function number(v) {
    if (v === null || v === undefined || v === "-") return "no value";
    var a = Math.abs(v), digits = a >= 1000 ? 0 : a >= 100 ? 1 : a >= 1 ? 2 : 4;
    return v.toLocaleString("en-US", { maximumFractionDigits: digits });
  }

  // Options come as plain data. What cannot be said in JSON (functions) or must
  // follow the reader's light or dark setting (colours) is added here.
  function dress(data) {
    var css = getComputedStyle(root), v = function (n) { return css.getPropertyValue("--" + n).trim(); };
    var o = JSON.parse(JSON.stringify(data.option)), font = css.fontFamily;
    var label = { color: v("mute"), fontSize: 11, fontFamily: font };
    o.backgroundColor = "transparent";
    o.textStyle = { fontFamily: font, color: v("soft") };
    (o.xAxis || []).forEach(function (ax) {
      ax.logBase = 2;
      ax.axisLabel = Object.assign({ hideOverlap: true, customValues: data.ticks, formatter: function (n) { return String(Math.round(n)); } }, label);
      ax.axisTick = { customValues: data.ticks, lineStyle: { color: v("line2") } };
      ax.axisLine = { lineStyle: { color: v("line2") } };
      ax.nameTextStyle = label;
      ax.splitLine = { show: false };
      ax.minorTick = { show: false };
    });
    (o.yAxis || []).forEach(function (ax) {
      ax.axisLabel = Object.assign({ formatter: number }, label);
      ax.nameTextStyle = Object.assign({ align: "left" }, label);
      ax.splitLine = { lineStyle: { color: v("grid") } };
      ax.axisLine = { show: false };
      ax.axisTick = { show: false };
    });
    (o.series || []).forEach(function (s, i) {
      var role = data.roles[i], color = v(role === "gate" ? "gate" : role === "bad" ? "bar-fail" : "series");
      s.itemStyle = { color: color };
      s.lineStyle = role === "gate" ? { color: color, width: 1.5, type: [5, 4] } : role === "bad" ? { width: 0, opacity: 0 } : { color: color, width: 2 };
      s.z = role === "bad" ? 5 : role === "gate" ? 2 : 3;
      s.emphasis = { disabled: true };
    });
    o.tooltip = Object.assign({}, o.tooltip, {
      // Drawn on the canvas: an HTML tooltip needs style attributes, which the
      // page's policy forbids.
      renderMode: "richText",
      backgroundColor: v("panel"), borderColor: v("line2"), borderWidth: 1,
      textStyle: { color: v("text"), fontSize: 12, fontFamily: font },
      axisPointer: { type: "line", snap: true, lineStyle: { color: v("line2"), type: "solid" }, label: { show: false } },
      formatter: function (ps) {
        var lines = ["Concurrency " + ps[0].value[0]];
        ps.forEach(function (p) {
          var role = data.roles[p.seriesIndex];
          if (role === "bad") return;
          lines.push((role === "gate" ? "Gate" : data.label) + "  " + number(p.value[1]) + " " + data.unit);
        });
        return lines.join("\n");
      }
    });
    return o;
  }

  function draw(node) {
    if (node.dataset.drawn) return;
    node.dataset.drawn = "1";
    try {
      var data = JSON.parse(doc.getElementById(node.id + "-data").textContent);
      var chart = echarts.init(node, null, { renderer: "canvas" });
      chart.setOption(dress(data));
      drawn.push({ chart: chart, data: data });
    } catch (e) {
      node.textContent = "This chart could not be drawn (" + e.message + "). Its data is in the table below.";
      var d = node.parentNode.querySelector("details");
      if (d) d.open = true;
    }
  }
  function redraw() { drawn.forEach(function (d) { d.chart.setOption(dress(d.data), true); }); }

  var charts = all(".chart");
  charts.forEach(function (n) {
    n.hidden = false;
    var d = n.parentNode.querySelector("details");
    if (d) d.open = false;
  });
  if ("IntersectionObserver" in window) {
    var seen = new IntersectionObserver(function (entries) {
      entries.forEach(function (e) { if (e.isIntersecting) { seen.unobserve(e.target); draw(e.target); } });
    }, { rootMargin: "200px" });
    charts.forEach(function (n) { seen.observe(n); });
  } else charts.forEach(draw);
  dark.addEventListener("change", redraw);
  window.addEventListener("resize", function () { drawn.forEach(function (d) { d.chart.resize(); }); });
  // On paper everything is open and drawn, and as it was before afterwards.
  var closed = [];
  window.addEventListener("beforeprint", function () {
    charts.forEach(draw);
    closed = all("details.cell:not([open])");
    closed.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (d) { d.open = false; }); });

  // --- tables ---------------------------------------------------------------
  function raw(td) { return td.hasAttribute("data-v") ? td.getAttribute("data-v") : td.textContent.trim().replace(/\s+/g, " "); }

  function sortBy(table, col, th) {
    var up = th.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
    all("thead th", table).forEach(function (t) { t.removeAttribute("aria-sort"); });
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    var rows = Array.prototype.slice.call(body.rows).map(function (r, i) {
      var t = raw(r.cells[col]), n = r.cells[col].dataset.sort !== undefined ? +r.cells[col].dataset.sort : t === "" ? NaN : +t;
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
      return Array.prototype.slice.call(row.cells).filter(function (c) { return !c.classList.contains("barcell"); })
        .map(function (c) { return field(raw(c)); }).join(",");
    };
    return [table.tHead.rows[0]].concat(Array.prototype.slice.call(table.tBodies[0].rows).filter(function (r) { return !r.hidden; }))
      .map(pick).join("\r\n") + "\r\n";
  }
  function save(name, text) {
    var a = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: name });
    doc.body.appendChild(a); a.click(); a.remove();
    setTimeout(function () { URL.revokeObjectURL(a.href); }, 1000);
  }

  function tools(table) {
    var bar = el("div", { className: "tools" }), rows = Array.prototype.slice.call(table.tBodies[0].rows), name = table.caption.textContent;
    if (rows.length > 1) {
      var text = el("input", { type: "search", placeholder: "Filter rows", autocomplete: "off" });
      text.setAttribute("aria-label", "Filter: " + name);
      var states = [];
      rows.forEach(function (r) { if (r.dataset.state && states.indexOf(r.dataset.state) < 0) states.push(r.dataset.state); });
      var pickState = el("select");
      pickState.setAttribute("aria-label", "Status: " + name);
      pickState.appendChild(el("option", { value: "", textContent: "Every status" }));
      states.forEach(function (s) { pickState.appendChild(el("option", { value: s, textContent: s })); });
      var count = el("output");
      var apply = function () {
        var words = text.value.toLowerCase().split(/\s+/).filter(Boolean), n = 0;
        rows.forEach(function (r) {
          var t = r.textContent.toLowerCase();
          var show = (!pickState.value || r.dataset.state === pickState.value) && words.every(function (w) { return t.indexOf(w) >= 0; });
          r.hidden = !show; if (show) n++;
        });
        count.textContent = n + " of " + rows.length + " rows";
      };
      text.addEventListener("input", apply); pickState.addEventListener("change", apply); apply();
      bar.appendChild(text);
      if (states.length > 1) bar.appendChild(pickState);
      bar.appendChild(count);
    }
    bar.appendChild(el("span", { className: "grow" }));
    var b = el("button", { type: "button", className: "b", textContent: "Save as CSV" });
    b.addEventListener("click", function () { save(table.id + ".csv", csv(table)); });
    bar.appendChild(b);
    var box = table.closest(".tw");
    box.parentNode.insertBefore(bar, box);
  }

  all("table[data-tools]").forEach(function (table) {
    tools(table);
    all("thead th", table).forEach(function (th, col) {
      if (th.classList.contains("barcell")) return;
      var b = el("button", { type: "button" });
      while (th.firstChild) b.appendChild(th.firstChild);
      th.appendChild(b);
      b.addEventListener("click", function () { sortBy(table, col, th); });
    });
  });

  // --- links into closed cells ----------------------------------------------
  function reveal() {
    var id = decodeURIComponent(location.hash.slice(1)), n = id && doc.getElementById(id);
    for (; n; n = n.parentElement) if (n.tagName === "DETAILS") n.open = true;
    n = id && doc.getElementById(id);
    if (n) n.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  if (location.hash) reveal();

  // For the console and for tests.
  window.cvsDeck = { csv: csv, field: field, charts: drawn };
})();
