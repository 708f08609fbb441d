// Opens lessons in JupyterLab with a real browser and looks at what a reader sees.
//
//   node .ci/browser/check.mjs [-out DIR] [-modules DIR] NOTEBOOK…
//
// For each notebook (a path inside the repository):
//   saved      opened as it is: every chart is live when the notebook is trusted
//   run        Run All Cells from the menu: no cell fails, every chart is live
//   explorer   where a lesson has one: moved by keyboard and by mouse, its numbers change
//   dark       the dark theme: the charts are redrawn
//   untrusted  a copy that Jupyter does not trust: every chart is its picture
//   export     as HTML, with ECharts' host reached (live) and not reached (the picture)
// Screenshots of each go to DIR, if one is given. The exit status is 1 when anything was not as it should be.
import { spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "../..");
const home = path.join(root, ".forwardpass");

function parse(args) {
  const o = { out: "", modules: path.join(home, "browser"), files: [] };
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "-out") o.out = args[++i];
    else if (args[i] === "-modules") o.modules = args[++i];
    else o.files.push(args[i]);
  }
  if (!o.files.length) {
    console.error("usage: node .ci/browser/check.mjs [-out DIR] NOTEBOOK…");
    process.exit(2);
  }
  if (o.out) o.out = path.resolve(o.out);
  return o;
}

const options = parse(process.argv.slice(2));
if (options.out) fs.mkdirSync(options.out, { recursive: true });
const { chromium } = createRequire(path.join(options.modules, "x.js"))("playwright-core");

let passed = 0, failed = 0;
function expect(ok, what) {
  if (ok) passed++;
  else {
    failed++;
    console.log("FAIL " + what);
  }
}

// lap is the time since it was last called, to end a line with.
let clock = Date.now();
function lap() {
  const before = clock;
  clock = Date.now();
  return `(${((clock - before) / 1000).toFixed(1)} s)`;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// until asks again and again until the answer is yes. Only asking ends after limit ms: a yes that takes longer counts.
async function until(limit, ask, every = 100) {
  for (const end = Date.now() + limit; ; await pause(every)) {
    if (await ask()) return true;
    if (Date.now() > end) return false;
  }
}

function freePort() {
  return new Promise((done) => {
    const s = net.createServer().listen(0, "127.0.0.1", () => {
      const port = s.address().port;
      s.close(() => done(port));
    });
  });
}

// startLab runs the project's own launcher and reads the address that Jupyter prints.
async function startLab() {
  const port = await freePort();
  const lab = spawn("go", ["run", "./notebooks", "-no-browser", "-port", String(port)], { cwd: root, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  const address = new Promise((done, no) => {
    const read = (d) => {
      log += d;
      const m = log.match(/http:\/\/127\.0\.0\.1:(\d+)\S*?[?&]token=([0-9a-f]+)/);
      if (m) done({ base: `http://127.0.0.1:${m[1]}`, token: m[2] });
    };
    lab.stdout.on("data", read);
    lab.stderr.on("data", read);
    lab.on("exit", () => no(new Error("JupyterLab ended: " + log.slice(-2000))));
    setTimeout(() => no(new Error("JupyterLab did not start: " + log.slice(-2000))), 120000).unref();
  });
  const stop = () => {
    try { process.kill(-lab.pid, "SIGTERM"); } catch {}
  };
  return { ...(await address.catch((e) => { stop(); throw e; })), stop, log: () => log };
}

// nameOf is what a notebook's screenshots are called: "zh-08-sampling".
function nameOf(file) {
  return file.replace(/\.ipynb$/, "").split(path.sep).filter((p) => p !== "notebooks").join("-");
}

const none = { pictures: 0, charts: 0, explorers: 0, errors: 0 };

// expected counts what a notebook file says must be on the page, in each cell and together.
function expected(file) {
  const nb = JSON.parse(fs.readFileSync(file, "utf8"));
  const cells = nb.cells.map((c) => {
    const n = { ...none };
    for (const o of c.outputs || []) {
      if (o.data?.["image/png"]) n.pictures++;
      const html = [].concat(o.data?.["text/html"] || []).join("");
      if (html.includes("forwardpass-chart")) n.charts++;
      if (html.includes('class="fp-explore"')) n.explorers++;
      if (o.output_type === "error" || o.name === "stderr") n.errors = 1;
    }
    return n;
  });
  const sum = (key) => cells.reduce((n, c) => n + c[key], 0);
  return { cells, pictures: sum("pictures"), charts: sum("charts"), explorers: sum("explorers"), errors: sum("errors"), code: nb.cells.filter((c) => c.cell_type === "code" && [].concat(c.source).join("").trim()).length };
}

// Messages of the page that are none of ours: Jupyter's own noise.
const foreign = [/favicon/, /Failed to load resource.*(40[34]|net::)/, /lsp|language.?server/i, /jupyterlab-manager/i, /ResizeObserver loop/, /Could not (find|determine)/i, /WebSocket/i, /deprecated/i];

async function open(context, lab, file, messages) {
  const page = await context.newPage();
  page.on("console", (m) => {
    if (m.type() === "error") messages.push(m.text() + " " + (m.location()?.url || ""));
  });
  page.on("pageerror", (e) => messages.push(String(e.stack || e)));
  await page.goto(`${lab.base}/lab/tree/${file}?reset&token=${lab.token}`);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  return page;
}

// look reads the page after it was drawn: what each cell shows, which cells are in view and where, and whether this is the
// notebook's end. JupyterLab adds cells bit by bit, so that the end may move.
function look(page) {
  return page.evaluate(async () => {
    for (let k = 0; k < 2; k++) await new Promise(requestAnimationFrame);
    const n = document.querySelector(".jp-Notebook .jp-WindowedPanel-outer"), view = n.getBoundingClientRect();
    const place = [], cells = [...document.querySelectorAll(".jp-Notebook .jp-Cell")].map((c) => {
      const at = c.getBoundingClientRect(), inView = at.height > 0 && at.bottom > view.top && at.top < view.bottom;
      if (inView) place.push([c.dataset.windowedListIndex, at.top, at.bottom]);
      return {
        index: c.dataset.windowedListIndex,
        inView,
        code: c.classList.contains("jp-CodeCell"),
        prompt: c.querySelector(".jp-InputPrompt")?.textContent || "",
        live: [...c.querySelectorAll(".forwardpass-chart")].filter((d) => d.getClientRects().length && (d.querySelector("svg,canvas,span,input,button"))).length,
        explorers: c.querySelectorAll(".fp-live").length,
        pictures: [...c.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && i.naturalWidth > 0).length,
        nameless: [...c.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && !i.alt).length,
        errors: c.querySelector("[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']") ? 1 : 0,
      };
    });
    return { cells, place: JSON.stringify([n.scrollTop, place]), end: n.scrollTop + n.clientHeight > n.scrollHeight - 2 };
  });
}

// through scrolls the notebook from top to end, so that all of it is drawn, and gathers per cell what is seen. At each
// screenful it waits until the cells in view show what the file says, live or as pictures, and no longer move. If they
// never do, it goes on with what there is, and then has little patience left, since the check has failed already. With a
// name it takes a screenshot of each screenful.
async function through(page, want, live, shots) {
  const cells = new Map();
  const shown = (c) => c.live + c.explorers + c.pictures;
  const lacks = (c) => {
    const w = want.cells[c.index] || none;
    return c.errors < w.errors || (live ? c.live < w.charts || c.explorers < w.explorers || shown(c) < w.pictures : c.pictures < w.pictures);
  };
  let patience = 30000;
  const scroll = (to) => page.evaluate((to) => {
    const n = document.querySelector(".jp-Notebook .jp-WindowedPanel-outer");
    if (to === "top") n.scrollTo(0, 0);
    else n.scrollBy(0, n.clientHeight * 0.85);
  }, to);
  await scroll("top");
  for (let k = 0; k < 200; k++) {
    let now, place, lacking;
    const settled = await until(patience, async () => {
      place = now?.place;
      now = await look(page);
      for (const c of now.cells) {
        const was = cells.get(c.index);
        if (!was || shown(was) <= shown(c)) cells.set(c.index, c);
      }
      lacking = now.cells.filter((c) => c.inView && lacks(c));
      return now.place === place && !lacking.length && (!now.end || cells.size >= want.cells.length);
    });
    if (!settled) {
      console.log(`  after ${patience / 1000} s at screenful ${k + 1}: ${lacking.map((c) => `cell ${c.index} shows ${c.live} live, ${c.pictures} pictures`).join(", ") || (now.place === place ? `${cells.size} of ${want.cells.length} cells` : "the page moves")}`);
      patience = 2000;
    }
    if (shots) await page.screenshot({ path: `${shots}-${String(k).padStart(2, "0")}.png` });
    if (now.end) break;
    await scroll("on");
  }
  const sum = (key) => [...cells.values()].reduce((n, c) => n + c[key], 0);
  return { live: sum("live"), pictures: sum("pictures"), errors: sum("errors"), nameless: sum("nameless"), prompts: [...cells.values()].filter((c) => c.code).map((c) => c.prompt) };
}

async function menu(page, ...names) {
  await page.click(`.lm-MenuBar-item:has-text("${names[0]}")`);
  for (const name of names.slice(1, -1)) await page.hover(`.lm-Menu-item:has(.lm-Menu-itemLabel:text-is("${name}"))`);
  await page.click(`.lm-Menu-item:has(.lm-Menu-itemLabel:text-is("${names.at(-1)}"))`);
}

// runAll runs all cells and waits: until there is a star for a cell that waits or runs, then until there is none. Before
// JupyterLab has its kernel, Run All would run nothing.
async function runAll(page, limit) {
  await until(60000, () => page.evaluate(() => document.querySelector(".jp-Notebook-ExecutionIndicator[data-status='idle']") !== null));
  await menu(page, "Run", "Run All Cells");
  const stars = () => page.evaluate(() => [...document.querySelectorAll(".jp-Notebook .jp-InputPrompt")].some((p) => p.textContent.includes("*")));
  const busy = () => page.evaluate(() => document.querySelectorAll(".jp-Notebook-ExecutionIndicator[data-status='busy'], .jp-Notebook-ExecutionIndicator[data-status='starting']").length > 0);
  let idle = 0;
  return await until(60000, stars) && until(limit, async () => (idle = (await stars()) || (await busy()) ? 0 : idle + 1) === 2, 500);
}

async function setTheme(page, name) {
  await menu(page, "Settings", "Theme", name);
  await page.waitForFunction((light) => document.body.dataset.jpThemeLight === light, name.includes("Dark") ? "false" : "true");
}

// trusts asks Jupyter whether it lets this notebook's saved scripts run.
async function trusts(lab, file) {
  const nb = await fetch(`${lab.base}/api/contents/${file}?token=${lab.token}`).then((r) => r.json());
  return nb.content.cells.every((c) => c.cell_type !== "code" || c.metadata.trusted);
}

async function checkLab(context, lab, file) {
  const shot = (kind) => options.out && path.join(options.out, `${nameOf(file)}-${kind}`);
  const want = expected(path.join(root, file));
  const messages = [];
  const trusted = await trusts(lab, file);
  const page = await open(context, lab, file, messages);
  console.log(`${file}: opened ${lap()}`);
  const saved = await through(page, want, trusted);
  console.log(`${file}: saved: ${saved.live} live, ${saved.pictures} pictures of ${want.charts} charts ${lap()}`);
  expect(saved.live + saved.pictures >= want.charts, `${file}: saved: ${saved.live} live + ${saved.pictures} pictures, want ${want.charts}`);
  if (trusted) expect(saved.live === want.charts, `${file}: saved and trusted: ${saved.live} live charts, want ${want.charts}`);

  expect(await runAll(page, 600000), `${file}: run: not finished after ten minutes`);
  console.log(`${file}: run ${lap()}`);
  const run = await through(page, want, true, shot("run"));
  console.log(`${file}: run: ${run.live} live, ${run.pictures} pictures, ${run.errors} cells with errors ${lap()}`);
  expect(run.live === want.charts, `${file}: run: ${run.live} live charts, want ${want.charts}`);
  expect(run.pictures === want.pictures - want.charts - want.explorers, `${file}: run: ${run.pictures} pictures left, want ${want.pictures - want.charts - want.explorers}`);
  expect(run.errors === want.errors, `${file}: run: ${run.errors} cells with errors, want ${want.errors}`);
  expect(run.nameless === 0, `${file}: run: ${run.nameless} pictures without alternative text`);
  const ran = run.prompts.filter((p) => /\d/.test(p)).length;
  expect(ran === want.code, `${file}: run: ${ran} of ${want.code} cells ran`);

  await checkExplorers(page, file, want.explorers, shot("explorer"));
  await setTheme(page, "JupyterLab Dark");
  const dark = await through(page, want, true, shot("dark"));
  console.log(`${file}: dark: ${dark.live} live ${lap()}`);
  expect(dark.live === want.charts, `${file}: dark: ${dark.live} live charts, want ${want.charts}`);
  await setTheme(page, "JupyterLab Light");
  const ours = messages.filter((m) => !foreign.some((f) => f.test(m)));
  for (const m of ours) console.log("  console: " + m.slice(0, 400));
  expect(ours.length === 0, `${file}: ${ours.length} errors in the browser's console`);
  await fetch(`${lab.base}/api/kernels?token=${lab.token}`).then((r) => r.json()).then((list) => Promise.all(list.map((k) => fetch(`${lab.base}/api/kernels/${k.id}?token=${lab.token}`, { method: "DELETE" }))));
  await page.evaluate(() => { window.onbeforeunload = null; });
  await page.close({ runBeforeUnload: false });
}

// checkExplorers moves each live explorer as a reader does and sees whether it answers.
async function checkExplorers(page, file, want, shot) {
  const explorers = page.locator(".fp-live");
  const count = await explorers.count();
  expect(count === want, `${file}: ${count} live explorers, want ${want}`);
  for (let i = 0; i < count; i++) {
    const one = explorers.nth(i);
    await one.scrollIntoViewIfNeeded();
    const said = async () => (await one.locator(".fp-summary").textContent()) + (await one.locator("table").textContent());
    const slider = one.locator("input[name=T]");
    const before = await said();
    await slider.focus();
    for (let k = 0; k < 8; k++) await page.keyboard.press("ArrowRight");
    const keyed = await said();
    expect(keyed !== before, `${file}: explorer ${i + 1}: the arrow keys change nothing`);
    const box = await one.locator("input[name=p]").boundingBox();
    await page.mouse.move(box.x + box.width - 8, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, { steps: 12 });
    await page.mouse.up();
    expect((await said()) !== keyed, `${file}: explorer ${i + 1}: dragging top-p changes nothing`);
    if (shot) await page.screenshot({ path: `${shot}-${i}.png` });
  }
}

// A copy with a cell more has another signature, so Jupyter does not trust it.
async function checkUntrusted(context, lab, file, folder) {
  const nb = JSON.parse(fs.readFileSync(path.join(root, file), "utf8"));
  nb.cells.push({ cell_type: "markdown", id: "untrusted", metadata: {}, source: "an untrusted copy" });
  const copy = path.join(folder, path.basename(file));
  fs.writeFileSync(path.join(root, copy), JSON.stringify(nb));
  const want = expected(path.join(root, copy));
  const page = await open(context, lab, copy, []);
  const seen = await through(page, want, false, options.out && path.join(options.out, `${nameOf(file)}-untrusted`));
  console.log(`${file}: untrusted: ${seen.live} live, ${seen.pictures} pictures ${lap()}`);
  expect(seen.live === 0, `${file}: untrusted: ${seen.live} live charts, want none`);
  expect(seen.pictures === want.pictures, `${file}: untrusted: ${seen.pictures} pictures, want ${want.pictures}`);
  await page.close();
}

// exportAll makes NAME.html of each notebook in a folder. One run does it for all: starting takes longer than converting.
function exportAll(files, to) {
  const env = { ...process.env, JUPYTER_CONFIG_DIR: path.join(home, "jupyter/config"), JUPYTER_DATA_DIR: path.join(home, "jupyter/data") };
  const copies = files.map((file) => path.join(to, nameOf(file) + ".ipynb"));
  files.forEach((file, i) => fs.copyFileSync(path.join(root, file), copies[i]));
  const made = spawnSync(path.join(home, "venv/bin/python"), ["-m", "nbconvert", "--to", "html", ...copies], { env, encoding: "utf8", timeout: 600000 });
  console.log(`exported ${lap()}`);
  expect(made.status === 0, `export: ${made.stderr?.slice(-500)}`);
  return made.status === 0;
}

async function checkExport(browser, file, from) {
  const name = nameOf(file);
  const want = expected(path.join(root, file));
  const echarts = path.join(home, "static/echarts.min.js");
  for (const online of [true, false]) {
    if (online && !fs.existsSync(echarts)) continue;
    const context = await browser.newContext({ viewport: { width: 1100, height: 1000 } });
    await context.route(/^https?:/, (r) => online && r.request().url().endsWith("/echarts.min.js") ? r.fulfill({ path: echarts, contentType: "text/javascript" }) : r.abort());
    const page = await context.newPage();
    page.setDefaultTimeout(120000);
    const errors = [];
    page.on("pageerror", (e) => errors.push(String(e)));
    // Half a second without requests: all scripts were loaded, or not, and have run.
    await page.goto("file://" + path.join(from, name + ".html"), { waitUntil: "networkidle" });
    let seen;
    await until(30000, async () => {
      seen = await page.evaluate(() => ({
        live: [...document.querySelectorAll(".forwardpass-chart")].filter((d) => d.getClientRects().length && d.querySelector("svg,canvas,span,input,button")).length,
        pictures: [...document.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && i.naturalWidth > 0).length,
      }));
      return seen.live + seen.pictures === want.pictures && (!online || seen.live === want.charts);
    });
    const kind = online ? "export, online" : "export, offline";
    console.log(`${file}: ${kind}: ${seen.live} live, ${seen.pictures} pictures ${lap()}`);
    if (online) expect(seen.live === want.charts, `${file}: ${kind}: ${seen.live} live charts, want ${want.charts}`);
    expect(seen.live + seen.pictures === want.pictures, `${file}: ${kind}: ${seen.live} live and ${seen.pictures} pictures, want ${want.pictures} together`);
    expect(errors.filter((e) => /echarts|forwardpass|option|strip/.test(e)).length === 0, `${file}: ${kind}: ${errors.join("; ")}`);
    if (options.out) await page.screenshot({ path: path.join(options.out, `${name}-export-${online ? "online" : "offline"}.png`), fullPage: true });
    await context.close();
  }
}

const folder = "browser-check";
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "forwardpass-browser-"));
let lab, browser;
try {
  lab = await startLab();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  console.log(`started ${lap()}`);
  // One context: JupyterLab's scripts, some megabytes, are fetched and compiled once.
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 } });
  context.setDefaultTimeout(120000);
  fs.mkdirSync(path.join(root, folder), { recursive: true });
  const files = options.files.map((file) => path.relative(root, path.resolve(file)));
  const exported = exportAll(files, scratch);
  for (const file of files) {
    const before = fs.readFileSync(path.join(root, file));
    try {
      await checkLab(context, lab, file);
    } finally {
      fs.writeFileSync(path.join(root, file), before); // whatever JupyterLab saved by itself
    }
    await checkUntrusted(context, lab, file, folder);
    if (exported) await checkExport(browser, file, scratch);
  }
} catch (e) {
  expect(false, String(e.stack || e));
} finally {
  await browser?.close();
  lab?.stop();
  fs.rmSync(path.join(root, folder), { recursive: true, force: true });
  fs.rmSync(scratch, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
