// Opens lessons in JupyterLab with a real browser and looks at what a reader sees.
//
//   node .ci/browser/check.mjs -out DIR [-modules DIR] NOTEBOOK…
//
// For each notebook (a path inside the repository):
//   saved      opened as it is: every chart is live when the notebook is trusted
//   run        Run All Cells from the menu: no cell fails, every chart is live
//   explorer   where a lesson has one: moved by keyboard and by mouse, its numbers change
//   dark       the dark theme: the charts are redrawn
//   untrusted  a copy that Jupyter does not trust: every chart is its picture
//   export     as HTML, with ECharts' host reached (live) and not reached (the picture)
// Screenshots of each go to DIR. The exit status is 1 when anything was not as it should be.
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
  if (!o.out || !o.files.length) {
    console.error("usage: node .ci/browser/check.mjs -out DIR NOTEBOOK…");
    process.exit(2);
  }
  o.out = path.resolve(o.out);
  return o;
}

const options = parse(process.argv.slice(2));
fs.mkdirSync(options.out, { recursive: true });
const { chromium } = createRequire(path.join(options.modules, "x.js"))("playwright-core");

let passed = 0, failed = 0;
function expect(ok, what) {
  if (ok) passed++;
  else {
    failed++;
    console.log("FAIL " + what);
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

// expected counts what a notebook file says must be on the page.
function expected(file) {
  const nb = JSON.parse(fs.readFileSync(file, "utf8"));
  let pictures = 0, charts = 0, explorers = 0, errors = 0;
  for (const c of nb.cells) {
    const allowed = (c.metadata.tags || []).includes("raises-exception");
    for (const o of c.outputs || []) {
      if (o.data?.["image/png"]) pictures++;
      const html = [].concat(o.data?.["text/html"] || []).join("");
      if (html.includes("forwardpass-chart")) charts++;
      if (html.includes('class="fp-explore"')) explorers++;
      if (o.output_type === "error" && !allowed) errors++;
    }
  }
  return { pictures, charts, explorers, errors, code: nb.cells.filter((c) => c.cell_type === "code").length };
}

// Messages of the page that are none of ours: Jupyter's own noise.
const foreign = [/favicon/, /Failed to load resource.*(40[34]|net::)/, /lsp|language.?server/i, /jupyterlab-manager/i, /ResizeObserver loop/, /Could not (find|determine)/i, /WebSocket/i, /deprecated/i];

async function open(browser, lab, file, messages) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  page.on("console", (m) => {
    if (m.type() === "error") messages.push(m.text() + " " + (m.location()?.url || ""));
  });
  page.on("pageerror", (e) => messages.push(String(e.stack || e)));
  await page.goto(`${lab.base}/lab/tree/${file}?reset&token=${lab.token}`);
  await page.waitForSelector(".jp-Notebook .jp-Cell", { timeout: 60000 });
  await page.waitForTimeout(1500);
  return page;
}

// through scrolls the notebook from top to end, so that all of it is drawn, and gathers per cell what
// is seen; with a name it takes a screenshot of each screenful.
async function through(page, shots) {
  const cells = new Map();
  const scroller = await page.evaluateHandle(() => {
    let n = document.querySelector(".jp-Notebook .jp-Cell");
    while (n && !(n.scrollHeight > n.clientHeight + 4 && /auto|scroll/.test(getComputedStyle(n).overflowY))) n = n.parentElement;
    return n || document.scrollingElement;
  });
  await scroller.evaluate((n) => n.scrollTo(0, 0));
  for (let k = 0; k < 200; k++) {
    await page.waitForTimeout(250);
    const seen = await page.evaluate(() => [...document.querySelectorAll(".jp-Notebook .jp-Cell")].map((c) => ({
      index: c.dataset.windowedListIndex,
      code: c.classList.contains("jp-CodeCell"),
      prompt: c.querySelector(".jp-InputPrompt")?.textContent || "",
      live: [...c.querySelectorAll(".forwardpass-chart")].filter((d) => d.getClientRects().length && (d.querySelector("svg,canvas,span,input,button"))).length,
      pictures: [...c.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && i.naturalWidth > 0).length,
      nameless: [...c.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && !i.alt).length,
      errors: c.querySelectorAll("[data-mime-type='application/vnd.jupyter.error']").length,
    })));
    for (const c of seen) {
      const was = cells.get(c.index);
      if (!was || was.live + was.pictures <= c.live + c.pictures) cells.set(c.index, c);
    }
    if (shots) await page.screenshot({ path: `${shots}-${String(k).padStart(2, "0")}.png` });
    const more = await scroller.evaluate((n) => {
      const before = n.scrollTop;
      n.scrollBy(0, n.clientHeight * 0.85);
      return n.scrollTop > before + 1;
    });
    if (!more) break;
  }
  const sum = (key) => [...cells.values()].reduce((n, c) => n + c[key], 0);
  return { live: sum("live"), pictures: sum("pictures"), errors: sum("errors"), nameless: sum("nameless"), prompts: [...cells.values()].filter((c) => c.code).map((c) => c.prompt) };
}

async function menu(page, ...names) {
  await page.click(`.lm-MenuBar-item:has-text("${names[0]}")`);
  for (const name of names.slice(1, -1)) await page.hover(`.lm-Menu-item:has(.lm-Menu-itemLabel:text-is("${name}"))`);
  await page.click(`.lm-Menu-item:has(.lm-Menu-itemLabel:text-is("${names.at(-1)}"))`);
}

async function runAll(page, limit) {
  await menu(page, "Run", "Run All Cells");
  const busy = async () => page.evaluate(() => document.querySelectorAll(".jp-Notebook-ExecutionIndicator[data-status='busy'], .jp-Notebook-ExecutionIndicator[data-status='starting']").length > 0
    || [...document.querySelectorAll(".jp-Notebook .jp-InputPrompt")].some((p) => p.textContent.includes("*")));
  const end = Date.now() + limit;
  let idle = 0;
  await page.waitForTimeout(3000);
  while (idle < 4) {
    if (Date.now() > end) return false;
    idle = (await busy()) ? 0 : idle + 1;
    await page.waitForTimeout(500);
  }
  return true;
}

async function setTheme(page, name) {
  await menu(page, "Settings", "Theme", name);
  await page.waitForFunction((light) => document.body.dataset.jpThemeLight === light, name.includes("Dark") ? "false" : "true", { timeout: 20000 });
  await page.waitForTimeout(1000);
}

async function checkLab(browser, lab, file) {
  const name = nameOf(file);
  const shot = (kind) => path.join(options.out, `${name}-${kind}`);
  const want = expected(path.join(root, file));
  const messages = [];
  const page = await open(browser, lab, file, messages);
  const saved = await through(page);
  const trusted = saved.live > 0 || want.charts === 0;
  console.log(`${file}: saved: ${saved.live} live, ${saved.pictures} pictures of ${want.charts} charts`);
  expect(saved.live + saved.pictures >= want.charts, `${file}: saved: ${saved.live} live + ${saved.pictures} pictures, want ${want.charts}`);
  if (trusted) expect(saved.live === want.charts, `${file}: saved and trusted: ${saved.live} live charts, want ${want.charts}`);

  expect(await runAll(page, 600000), `${file}: run: not finished after ten minutes`);
  const run = await through(page, shot("run"));
  console.log(`${file}: run: ${run.live} live, ${run.pictures} pictures, ${run.errors} errors`);
  expect(run.live === want.charts, `${file}: run: ${run.live} live charts, want ${want.charts}`);
  expect(run.pictures === want.pictures - want.charts - want.explorers, `${file}: run: ${run.pictures} pictures left, want ${want.pictures - want.charts - want.explorers}`);
  expect(run.errors === 0 || want.errors === 0, `${file}: run: ${run.errors} errors`);
  expect(run.nameless === 0, `${file}: run: ${run.nameless} pictures without alternative text`);
  const idle = run.prompts.filter((p) => /\[ \]|\[\*\]/.test(p)).length;
  expect(idle <= want.code - run.prompts.filter((p) => /\d/.test(p)).length, `${file}: run: ${idle} cells did not run`);

  await checkExplorers(page, file, want.explorers, shot("explorer"));
  await setTheme(page, "JupyterLab Dark");
  const dark = await through(page, shot("dark"));
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
    await page.screenshot({ path: `${shot}-${i}.png` });
  }
}

// A copy with a cell more has another signature, so Jupyter does not trust it.
async function checkUntrusted(browser, lab, file, folder) {
  const nb = JSON.parse(fs.readFileSync(path.join(root, file), "utf8"));
  nb.cells.push({ cell_type: "markdown", id: "untrusted", metadata: {}, source: "an untrusted copy" });
  const copy = path.join(folder, path.basename(file));
  fs.writeFileSync(path.join(root, copy), JSON.stringify(nb));
  const want = expected(path.join(root, file));
  const messages = [];
  const page = await open(browser, lab, copy, messages);
  const seen = await through(page, path.join(options.out, `${nameOf(file)}-untrusted`));
  console.log(`${file}: untrusted: ${seen.live} live, ${seen.pictures} pictures`);
  expect(seen.live === 0, `${file}: untrusted: ${seen.live} live charts, want none`);
  expect(seen.pictures === want.pictures, `${file}: untrusted: ${seen.pictures} pictures, want ${want.pictures}`);
  await page.close();
}

async function checkExport(browser, file) {
  const name = nameOf(file);
  const env = { ...process.env, JUPYTER_CONFIG_DIR: path.join(home, "jupyter/config"), JUPYTER_DATA_DIR: path.join(home, "jupyter/data") };
  const made = spawnSync(path.join(home, "venv/bin/python"), ["-m", "nbconvert", "--to", "html", "--output-dir", options.out, "--output", name + ".html", path.join(root, file)], { env, encoding: "utf8" });
  expect(made.status === 0, `${file}: export: ${made.stderr?.slice(-500)}`);
  if (made.status !== 0) return;
  const want = expected(path.join(root, file));
  const echarts = path.join(home, "static/echarts.min.js");
  for (const online of [true, false]) {
    if (online && !fs.existsSync(echarts)) continue;
    const context = await browser.newContext({ viewport: { width: 1100, height: 1000 } });
    await context.route(/^https?:/, (r) => online && r.request().url().endsWith("/echarts.min.js") ? r.fulfill({ path: echarts, contentType: "text/javascript" }) : r.abort());
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (e) => errors.push(String(e)));
    await page.goto("file://" + path.join(options.out, name + ".html"), { waitUntil: "domcontentloaded" });
    await page.waitForTimeout(2500);
    const seen = await page.evaluate(() => ({
      live: [...document.querySelectorAll(".forwardpass-chart")].filter((d) => d.getClientRects().length && d.querySelector("svg,canvas,span,input,button")).length,
      strips: [...document.querySelectorAll(".forwardpass-tokens")].length,
      pictures: [...document.querySelectorAll("img[src^='data:image/png']")].filter((i) => i.getClientRects().length && i.naturalWidth > 0).length,
    }));
    const kind = online ? "export, online" : "export, offline";
    console.log(`${file}: ${kind}: ${seen.live} live, ${seen.pictures} pictures`);
    if (online) expect(seen.live === want.charts, `${file}: ${kind}: ${seen.live} live charts, want ${want.charts}`);
    expect(seen.live + seen.pictures === want.pictures, `${file}: ${kind}: ${seen.live} live and ${seen.pictures} pictures, want ${want.pictures} together`);
    expect(errors.filter((e) => /echarts|forwardpass|option|strip/.test(e)).length === 0, `${file}: ${kind}: ${errors.join("; ")}`);
    await page.screenshot({ path: path.join(options.out, `${name}-export-${online ? "online" : "offline"}.png`), fullPage: true });
    await context.close();
  }
}

const folder = "browser-check";
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "forwardpass-browser-"));
let lab, browser;
try {
  lab = await startLab();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  fs.mkdirSync(path.join(root, folder), { recursive: true });
  for (const file of options.files) {
    const inside = path.relative(root, path.resolve(file));
    const before = fs.readFileSync(path.join(root, inside));
    await checkLab(browser, lab, inside);
    fs.writeFileSync(path.join(root, inside), before); // whatever JupyterLab saved by itself
    await checkUntrusted(browser, lab, inside, folder);
    await checkExport(browser, inside);
  }
} catch (e) {
  expect(false, String(e.stack || e));
} finally {
  await browser?.close();
  lab?.stop();
  fs.rmSync(path.join(root, folder), { recursive: true, force: true });
  fs.rmSync(profile, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
