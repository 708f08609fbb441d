// What the scripts of all charts share. They run where the kernel put them, once.
var script = document.currentScript;

// The picture is an image in the output before this one, wherever the page keeps outputs.
function picture() {
  for (var n = script, i = 0; n && i < 5; n = n.parentElement, i++) {
    var before = n.previousElementSibling;
    var img = before && (before.matches("img") ? before : before.querySelector("img"));
    if (img && img.src.slice(0, 15) === "data:image/png;") return { img: img, own: n };
  }
}
function dark() {
  var b = document.body;
  return b.dataset.jpThemeLight === "false" || b.classList.contains("vscode-dark") || b.classList.contains("theme-dark");
}
function channels(h) { return [1, 3, 5].map(function (i) { return parseInt(h.slice(i, i + 2), 16); }); }
function blend(list, t) {
  var x = t * (list.length - 1), i = Math.min(Math.floor(x), list.length - 2), a = channels(list[i]), b = channels(list[i + 1]);
  return a.map(function (v, k) { return Math.round(v + (x - i) * (b[k] - v)); });
}
// Black reads better on colours of more than this relative luminance (WCAG), white on the others.
function bright(c) {
  var l = c.map(function (v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
  return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] > 0.179;
}
