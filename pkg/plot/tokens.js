var strip = __STRIP__, colours = __COLOURS__;
var at = script && picture();
if (!at) return;
at.img.alt = strip.alt;

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
    top.style.cssText = "display:block;padding:3px 6px;font-size:14px;white-space:pre;border-radius:2px;background:rgb(" + fill + ");color:" + (bright(fill) ? "#000000" : "#ffffff")
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
