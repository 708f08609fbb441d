var option = __OPTION__, meta = __META__, colours = __COLOURS__, host = __HOST__;
var at = script && picture();
if (!at) return;
at.img.alt = meta.alt;

// ECharts: one copy a page, from beside Jupyter's own files or else from its host. A page with a
// module loader would hide it from us, so the loader looks away meanwhile.
function load() {
  if (window.echarts) return Promise.resolve();
  if (window.__forwardpassCharts) return window.__forwardpassCharts;
  var urls = [host], config = document.getElementById("jupyter-config-data");
  if (config) try { urls.unshift((JSON.parse(config.textContent).baseUrl || "/") + "static/echarts.min.js"); } catch (e) {}
  return window.__forwardpassCharts = new Promise(function (done) {
    (function next(i) {
      if (window.echarts || i >= urls.length) return done();
      var define = window.define, s = document.createElement("script");
      window.define = undefined;
      s.src = urls[i];
      s.onload = s.onerror = function () { window.define = define; next(i + 1); };
      document.head.appendChild(s);
    })(0);
  });
}

function short(v, digits, large) {
  if (typeof v !== "number") return v;
  var a = Math.abs(v), up = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  if (a === 0) return "0";
  if (a >= 1e15 || a < 1e-4) return v.toExponential(2);
  if (a >= large) for (var i = 0; i < up.length; i++) if (a >= up[i][0]) return +(v / up[i][0]).toPrecision(digits) + up[i][1];
  return String(v === Math.round(v) ? v : +v.toPrecision(digits));
}
function number(v) { return short(v, 5, 1e6); }
function tick(v) { return short(v, 4, 1e4); }
function label(v) { return short(v, 3, 1e5); }
function axes(o) { return [].concat(o.xAxis || [], o.yAxis || []); }
function text(s) { return String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;"); }

// The room between an axis and its name is that of the labels, which ECharts does not measure.
function gap(a, below) {
  var pen = document.createElement("canvas").getContext("2d"), wide = 34;
  pen.font = "11.5px sans-serif";
  if (a.type === "category") wide = Math.max.apply(null, a.data.map(function (l) { return Math.min(160, pen.measureText(l).width); }));
  if (!below) return wide + 16;
  return a.axisLabel.rotate ? 22 + wide * 0.71 : 28;
}

// The option in the page's theme, with what JSON cannot hold.
function themed(c) {
  var o = JSON.parse(JSON.stringify(option));
  o.color = c.series;
  o.textStyle = { color: c.ink };
  if (o.title) o.title.textStyle.color = c.ink;
  if (o.legend) o.legend.textStyle = { color: c.ink };
  o.tooltip.valueFormatter = function (v) { return number(v); };
  axes(o).forEach(function (a) {
    a.nameTextStyle = Object.assign({ color: c.ink }, a.nameTextStyle);
    a.axisLabel = Object.assign({ color: c.ink }, a.axisLabel);
    if (!a.axisLine) a.axisLine = { onZero: meta.kind === "bars", lineStyle: { color: "#888888" } };
    if (!a.splitLine) a.splitLine = { lineStyle: { color: c.faint } };
    if (a.type !== "category") a.axisLabel.formatter = tick;
    if (a.name) a.nameGap = gap(a, a === o.xAxis);
    if (a.name && a !== o.xAxis && a.type !== "category") o.grid.left += 10; // labels of one digit leave the name no room
  });
  o.series.forEach(function (s, k) {
    if (s.markLine) {
      s.markLine.lineStyle.color = c.ink;
      s.markLine.data.forEach(function (d) { d.label.color = c.ink; d.label.formatter = function () { return d.name; }; });
    }
    if (s.label && meta.kind !== "heat") {
      s.label.color = c.ink;
      if (meta.kind === "bars") s.label.formatter = function (p) { return label(+p.value); };
    }
    if (s.name === "roof") s.lineStyle.color = c.ink;
    (s.data || []).forEach(function (d) { if (d && d.itemStyle && d.itemStyle.color === colours.light.muted) d.itemStyle.color = c.muted; });
  });
  if (meta.kind === "points") o.tooltip.formatter = function (p) {
    return (p.name ? "<b>" + text(p.name) + "</b><br>" : "") + text(o.xAxis.name || "x") + ": " + number(p.value[0]) + "<br>" + text(o.yAxis.name || "y") + ": " + number(p.value[1]);
  };
  if (meta.kind === "heat") {
    var both = meta.scale.lo < 0, list = both ? c.diverging : c.ramp, s = o.series[0];
    o.visualMap.inRange.color = list;
    o.visualMap.textStyle = { color: c.ink };
    o.visualMap.formatter = label;
    o.tooltip.formatter = function (p) {
      var v = p.value;
      return text(o.yAxis.data[v[1]]) + " → " + text(o.xAxis.data[v[0]]) + "<br><b>" + number(v[2]) + "</b>" + (s.name ? " " + text(s.name) : "");
    };
    s.emphasis.itemStyle.borderColor = c.ink;
    // Numbers in the cells are black on bright and white on deep colours.
    s.label.formatter = function (p) {
      var v = p.value[2], deep = !bright(blend(list, Math.min(1, Math.max(0, (v - meta.scale.lo) / (meta.scale.hi - meta.scale.lo)))));
      return "{" + (deep ? "w" : "k") + "|" + (v === Math.round(v) ? label(v) : Math.abs(v) < 0.005 ? 0 : Math.abs(v) < 10 ? v.toFixed(2) : label(v)) + "}";
    };
    s.label.rich = { w: { color: "#ffffff", fontSize: 11 }, k: { color: "#000000", fontSize: 11 } };
  }
  return o;
}

load().then(function () {
  if (!window.echarts || !at.img.isConnected) return;
  var box = document.createElement("div"), chart, was;
  box.className = "forwardpass-chart";
  box.style.cssText = "max-width:100%;width:" + meta.w + "px;height:" + meta.h + "px";
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", meta.alt);
  at.img.style.display = "none";
  at.img.parentElement.insertBefore(box, at.img);
  if (at.own !== script) at.own.style.display = "none";
  function draw() {
    if (was === dark()) return;
    was = dark();
    if (chart) chart.dispose();
    chart = window.echarts.init(box, was ? "dark" : null, { renderer: "svg" });
    chart.setOption(themed(was ? colours.dark : colours.light));
  }
  draw();
  new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  if (window.ResizeObserver) new ResizeObserver(function () { if (box.clientWidth) chart.resize(); }).observe(box);
});
