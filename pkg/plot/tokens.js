(function () {
  var strip = __STRIP__, colours = __COLOURS__;
  var script = document.currentScript;

  function picture() {
    for (var n = script, i = 0; n && i < 5; n = n.parentElement, i++) {
      var before = n.previousElementSibling;
      var img = before && (before.matches("img") ? before : before.querySelector("img"));
      if (img && img.src.slice(0, 15) === "data:image/png;") return { img: img, own: n };
    }
  }
  var at = script && picture();
  if (!at) return;
  at.img.alt = strip.alt;

  function dark() {
    var b = document.body;
    return b.dataset.jpThemeLight === "false" || b.classList.contains("vscode-dark") || b.classList.contains("theme-dark");
  }
  function channels(h) { return [1, 3, 5].map(function (i) { return parseInt(h.slice(i, i + 2), 16); }); }
  function blend(list, t) {
    var x = t * (list.length - 1), i = Math.min(Math.floor(x), list.length - 2), a = channels(list[i]), b = channels(list[i + 1]);
    return a.map(function (v, k) { return Math.round(v + (x - i) * (b[k] - v)); });
  }
  function bright(c) {
    var l = c.map(function (v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] > 0.36;
  }

  var box = document.createElement("div");
  box.className = "forwardpass-chart forwardpass-tokens";
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", strip.alt);
  box.style.cssText = "max-width:" + strip.w + "px;line-height:1.3;padding:6px 8px;font-family:sans-serif";
  function draw() {
    var night = dark(), c = night ? colours.dark : colours.light, turn = night ? strip.dark : strip.light;
    box.textContent = "";
    if (strip.title) {
      var h = document.createElement("div");
      h.textContent = strip.title;
      h.style.cssText = "text-align:center;font-size:15px;margin-bottom:6px;color:" + c.ink;
      box.appendChild(h);
    }
    strip.tokens.forEach(function (t, i) {
      var cell = document.createElement("span"), top = document.createElement("span");
      var fill = t.v !== undefined ? blend(strip.diverging ? c.diverging : c.ramp, t.v)
        : channels(strip.plain ? (t.h ? (night ? "#7a4412" : "#f7cfa8") : (night ? "#2c3138" : "#eef1f5")) : turn[i % turn.length]);
      cell.style.cssText = "display:inline-block;text-align:center;vertical-align:top;margin:2px";
      top.style.cssText = "display:block;padding:3px 6px;font-size:14px;white-space:pre;border-radius:2px;background:rgb(" + fill + ");color:" + (bright(fill) ? "#1a1a1a" : "#ffffff")
        + (t.h ? ";outline:2px solid #d55e00" : "");
      top.textContent = t.t;
      cell.title = "token " + i + (t.b ? ": " + (strip.value ? strip.value + " " : "") + t.b : "");
      cell.appendChild(top);
      if (t.b) {
        var low = document.createElement("span");
        low.style.cssText = "display:block;font-size:11px;opacity:0.75;color:" + c.ink;
        low.textContent = t.b;
        cell.appendChild(low);
      }
      box.appendChild(cell);
    });
  }
  draw();
  new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  at.img.style.display = "none";
  at.img.parentElement.insertBefore(box, at.img);
  if (at.own !== script) at.own.style.display = "none";
})()
