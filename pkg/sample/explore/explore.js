(function (me) {
  "use strict";
  var c = CONFIG;
  var languages = {
    en: {
      T: "temperature", k: "top-k", p: "top-p", m: "min-p", order: "order of", off: "off", greedy: "0 (greedy)",
      kept: "kept", dropped: "dropped by ", rest: " other tokens", of: " of ", tokens: " tokens kept", entropy: "entropy ",
      nats: " nats, as uncertain as ", equal: " equally likely tokens", reset: "Reset",
      before: "outline: softmax of the logits (T = 1)", after: "bar: what is drawn from",
      missing: "The live explorer needs the files that the set-up of this course brings to Jupyter (sample.wasm). "
    },
    zh: {
      T: "温度 temperature", k: "top-k", p: "top-p", m: "min-p", order: "顺序", off: "关", greedy: "0（贪心）",
      kept: "保留", dropped: "丢弃于 ", rest: " 个其他 token", of: " / ", tokens: " 个 token 保留", entropy: "熵 ",
      nats: " nats，相当于 ", equal: " 个等可能 token", reset: "重置",
      before: "轮廓：logits 的 softmax（T = 1）", after: "条形：实际采样的分布",
      missing: "实时浏览器需要本课程安装时放入 Jupyter 的文件（sample.wasm）。"
    }
  }, text;
  var root = me.parentElement;

  // The language of the notebook around, which is not there yet when this script starts.
  function speak() {
    var words = "";
    (root.closest(".jp-Notebook") || document).querySelectorAll(".jp-RenderedMarkdown").forEach(function (m) { words += m.textContent; });
    text = languages[c.language || (/[\u4e00-\u9fff]{4}/.test(words) ? "zh" : "en")];
  }

  // The files lie beside Jupyter's own: <baseUrl>static/.
  var page = document.getElementById("jupyter-config-data"), base = "static/";
  if (page) { try { base = (JSON.parse(page.textContent).baseUrl || "/") + "static/"; } catch (e) { /* keep the default */ } }

  function load(url) {
    return new Promise(function (ok, no) {
      var s = document.createElement("script");
      s.src = url; s.onload = ok; s.onerror = function () { no(new Error("cannot load " + url)); };
      document.head.appendChild(s);
    });
  }

  // One instance of the program serves every explorer on the page.
  function program() {
    if (window.__forwardpassSample) return window.__forwardpassSample;
    window.__forwardpassSample = (window.Go ? Promise.resolve() : load(base + "wasm_exec.js")).then(function () {
      return fetch(base + "sample.wasm");
    }).then(function (r) {
      if (!r.ok) throw new Error("cannot load " + base + "sample.wasm");
      return r.arrayBuffer();
    }).then(function (b) {
      var go = new window.Go();
      return WebAssembly.instantiate(b, go.importObject).then(function (r) { go.run(r.instance); });
    });
    window.__forwardpassSample.catch(function () { delete window.__forwardpassSample; });
    return window.__forwardpassSample;
  }

  function el(tag, attrs, children) {
    var e = document.createElement(tag);
    Object.keys(attrs || {}).forEach(function (k) { e.setAttribute(k, attrs[k]); });
    (children || []).forEach(function (x) { e.append(x); });
    return e;
  }

  function build() {
    speak();
    var bytes = Uint8Array.from(atob(c.logits), function (x) { return x.charCodeAt(0); });
    var logits = new Float32Array(bytes.buffer), V = logits.length;

    // Top-k takes every k while it is small, then rounder ones; the last place is "off".
    var ks = [];
    for (var k = 1; k < V; k += k < 20 ? 1 : k < 100 ? 10 : Math.pow(10, Math.floor(Math.log10(k)))) ks.push(k);
    if (c.k > 0 && c.k < V && ks.indexOf(c.k) < 0) { ks.push(c.k); ks.sort(function (a, b) { return a - b; }); }
    ks.push(0);
    var start = { T: c.t, k: c.k > 0 && c.k < V ? ks.indexOf(c.k) : ks.length - 1, p: c.p, m: c.m };

    var sliders = {}, shown = {}, uid = "fp" + Math.random().toString(36).slice(2);
    function slider(name, min, max, step) {
      var input = sliders[name] = el("input", { type: "range", id: uid + name, name: name, min: min, max: max, step: step });
      shown[name] = el("output", { "for": uid + name });
      return el("div", { "class": "fp-slider" }, [el("label", { "for": uid + name }, [text[name]]), input, shown[name]]);
    }
    var order = el("select", { name: "order", id: uid + "o" }, [["Transformers", "transformers"], ["VLLM", "vLLM"], ["LlamaCpp", "llama.cpp"]].map(function (o) {
      return el("option", { value: o[0] }, [o[1]]);
    }));
    var reset = el("button", { type: "button" }, [text.reset]);
    var chain = el("p", { "class": "fp-chain" });
    var rows = c.ids.map(function (id, i) {
      var r = { id: id, bar: el("span", { "class": "fp-bar" }), line: el("span", { "class": "fp-before" }), num: el("td", { "class": "fp-num" }), why: el("td", {}) };
      r.tr = el("tr", {}, [el("th", { scope: "row" }, [c.labels[i]]), el("td", { "class": "fp-cell" }, [r.line, r.bar]), r.num, r.why]);
      return r;
    });
    var rest = el("tr", {}, [el("th", { scope: "row" }, [(V - rows.length) + text.rest]), el("td"), el("td", { "class": "fp-num" }), el("td")]);
    var table = el("table", {}, rows.map(function (r) { return r.tr; }).concat(V > rows.length ? [rest] : []));
    var summary = el("p", { "class": "fp-summary", role: "status", "aria-live": "polite" });
    var style = el("style", {}, [
      ".fp-live{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-content-font-color1,inherit);max-width:760px}",
      ".fp-live .fp-controls{display:grid;grid-template-columns:repeat(auto-fit,minmax(330px,1fr));gap:2px 24px}",
      ".fp-live .fp-slider{display:grid;grid-template-columns:10em 1fr 6em;gap:8px;align-items:center}",
      ".fp-live input:focus-visible,.fp-live select:focus-visible,.fp-live button:focus-visible{outline:2px solid #E69F00;outline-offset:2px}",
      ".fp-live output,.fp-live .fp-num{font-variant-numeric:tabular-nums}",
      ".fp-live table{border-collapse:collapse;width:100%;margin:0}.fp-live tr{background:none!important}",
      ".fp-live th,.fp-live td{padding:1px 8px;text-align:left;white-space:pre;border:0;font-size:13px;color:inherit}",
      ".fp-live th{font:13px var(--jp-code-font-family,monospace);text-align:right;width:11em}",
      ".fp-live .fp-cell{position:relative;width:45%}.fp-live .fp-num{width:4.5em;text-align:right}",
      ".fp-live .fp-bar{position:absolute;left:0;top:3px;bottom:3px;background:#0072B2;border-radius:2px}",
      ".fp-live .fp-before{position:absolute;left:0;top:1px;bottom:1px;border:1px dashed currentColor;opacity:.55;border-radius:2px;box-sizing:border-box}",
      ".fp-live .fp-out th,.fp-live .fp-out td{opacity:.6}.fp-live .fp-out th{text-decoration:line-through}",
      ".fp-live .fp-legend{opacity:.75;font-size:12px}.fp-live p{margin:4px 0}"
    ]);
    var live = el("div", { "class": "fp-live", role: "group", "aria-label": c.title || "sampling explorer" }, [
      style, el("p", {}, [el("strong", {}, [c.title])]),
      el("div", { "class": "fp-controls" }, [
        slider("T", 0, 3, 0.05), slider("k", 0, ks.length - 1, 1), slider("p", 0.01, 1, 0.01), slider("m", 0, 1, 0.01),
        el("div", { "class": "fp-slider" }, [el("label", { "for": uid + "o" }, [text.order]), order, reset])
      ]),
      chain, table, summary, el("p", { "class": "fp-legend" }, [text.after + "; " + text.before])
    ]);

    var plain = window.forwardpassSample(logits, JSON.stringify({ Temperature: 1 }));
    if (plain.error) throw new Error(plain.error);
    var last = { Transformers: "temperature → top-k → top-p → min-p", VLLM: "temperature → min-p → top-k → top-p", LlamaCpp: "top-k → top-p → min-p → temperature" };

    function set() {
      Object.keys(sliders).forEach(function (n) { sliders[n].value = start[n]; });
      order.value = c.order;
      update();
    }
    function percent(x) { return (100 * x).toFixed(x > 0 && x < 0.001 ? 3 : 1) + "%"; }

    function update() {
      var o = { Temperature: +sliders.T.value, TopK: ks[+sliders.k.value], TopP: +sliders.p.value, MinP: +sliders.m.value, Order: order.value };
      var say = { T: o.Temperature === 0 ? text.greedy : o.Temperature.toFixed(2), k: o.TopK || text.off, p: o.TopP === 1 ? text.off : o.TopP.toFixed(2), m: o.MinP === 0 ? text.off : o.MinP.toFixed(2) };
      Object.keys(say).forEach(function (n) { shown[n].textContent = say[n]; sliders[n].setAttribute("aria-valuetext", say[n]); });
      var t0 = performance.now(), r = window.forwardpassSample(logits, JSON.stringify(o));
      root.dataset.ms = (performance.now() - t0).toFixed(2);
      if (r.error) { summary.textContent = r.error; return; }

      chain.textContent = order.options[order.selectedIndex].text + ": " + last[order.value] + "  ⟹  " + V + r.steps.map(function (s) { return " → " + s.name + ": " + s.kept; }).join("");
      var max = 0, kept = 0, mass = 0, others = 0;
      for (var i = 0; i < V; i++) { if (r.by[i] === -1) kept++; }
      rows.forEach(function (x) { max = Math.max(max, r.probs[x.id], plain.probs[x.id]); mass += r.probs[x.id]; if (r.by[x.id] === -1) others++; });
      rows.forEach(function (x) {
        var by = r.by[x.id];
        x.bar.style.width = 100 * r.probs[x.id] / max + "%";
        x.line.style.width = 100 * plain.probs[x.id] / max + "%";
        x.num.textContent = percent(r.probs[x.id]);
        x.why.textContent = by === -1 ? text.kept : by < 0 ? "−∞" : text.dropped + r.steps[by].name;
        x.tr.className = by === -1 ? "" : "fp-out";
      });
      rest.children[2].textContent = percent(Math.max(0, 1 - mass));
      rest.children[3].textContent = text.kept + " " + (kept - others);
      summary.textContent = kept + text.of + V + text.tokens + "; " + text.entropy + r.entropy.toFixed(3) + text.nats + Math.exp(r.entropy).toFixed(2) + text.equal;

      root.dataset.options = JSON.stringify(o);
      root.dataset.entropy = r.entropy;
      root.dataset.kept = kept;
      root.dataset.probs = JSON.stringify(c.ids.map(function (id) { return r.probs[id]; }));
    }

    live.addEventListener("input", update);
    order.addEventListener("change", update);
    reset.addEventListener("click", set);
    // Jupyter has shortcuts of its own on the arrow keys and letters, and catches them at the document: a key pressed in an
    // explorer is meant for it. Stopping the event on its way down leaves the browser's own action.
    if (!window.__forwardpassKeys) {
      window.__forwardpassKeys = true;
      window.addEventListener("keydown", function (e) {
        if (e.target.closest && e.target.closest(".fp-live")) e.stopPropagation();
      }, true);
    }
    set();

    root.querySelectorAll("img").forEach(function (i) { i.remove(); });
    root.append(live);
    if (c.previous) {
      var out = root.closest(".jp-OutputArea-child,.output_area"), before = out && out.previousElementSibling;
      if (before && before.querySelector("img,svg")) before.style.display = "none";
    }
    root.dataset.ready = "true";
  }

  program().then(build).catch(function (e) {
    speak();
    root.dataset.error = e.message;
    root.append(el("p", { "class": "fp-missing" }, [text.missing]));
  });
})(document.currentScript);
