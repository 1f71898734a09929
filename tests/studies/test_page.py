"""The page of a run in a real browser: it asks for nothing, complains of nothing, and looks right in light and dark."""

import json
import shutil

import pytest
from conftest import TARGET, run

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Nothing that a browser does on its own account, and no state of an earlier one.
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1200,900",
)
# Pictures for people to look at.
PICTURES = TARGET / "studies"
# Least luminance of the paper in light, most in dark, of 255.
LIGHT, DARK = 200, 80


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="scripts/setup.sh studies")
    if not (CHROMIUM and DRIVER):
        pytest.skip("no Chromium with its driver: scripts/setup.sh studies")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folders(hca, tmp_path_factory):
    """Folders of runs: with faults, and one with plots over sizes."""
    demo, perf = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("perf")
    file = demo / "file"
    file.write_bytes(bytes(500_000))
    faults = "loss=0.02,reorder=0.02,corrupt=0.01"
    timeline = demo / "timeline.json"
    run(hca, "demo", "--link=ib", f"--faults={faults}", "--file", file, "--out", demo, "--timeline", timeline)
    run(hca, "perf", "--size=64,1k,4k", "--iters=32", "--qps=2", "--keep", perf)
    for folder in (demo, perf):
        run(hca, "report", folder)
    return {"demo": demo, "perf": perf}


def requests(browser) -> list[str]:
    """What the page asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in sent]


def paper(browser) -> float:
    """Luminance of the page's background, 0 to 255."""
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in color[color.index("(") + 1 : -1].split(",")[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def show(browser, page, scheme: str, width: int = 1200) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.set_window_size(width, 900)
    browser.get(page.as_uri())


@pytest.mark.parametrize("kind", ["demo", "perf"])
def test_the_page_is_whole(browser, folders, kind):
    page = folders[kind] / "report.html"
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        show(browser, page, scheme)
        # The browser's own first page is none of ours.
        asked = [url for url in requests(browser) if not url.startswith(("data:", "chrome:"))]
        assert asked == [page.as_uri()], "the page asks for something"
        complaints = [entry["message"] for entry in browser.get_log("browser")]
        assert complaints == []
        assert paper(browser) > LIGHT if scheme == "light" else paper(browser) < DARK
        # As high as all of it.
        height = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(1200, height)
        assert browser.save_screenshot(str(PICTURES / f"{kind}-{scheme}.png"))
    text = browser.find_element("tag name", "body").text
    for part in (f"hca {kind}", "Where the time goes", "Counters of the cards", "seed", "run.json"):
        assert part in text, f"'{part}' is missing"


@pytest.mark.parametrize("width", [1200, 420])
def test_nothing_sticks_out(browser, folders, width):
    for folder in folders.values():
        show(browser, folder / "report.html", "light", width)
        wide = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{folder}: {wide} pixels too wide at {width}"
        flat = "e => e.getBoundingClientRect().height < 10"
        empty = f"return [...document.querySelectorAll('svg, .bar')].filter({flat}).length"
        assert browser.execute_script(empty) == 0


def test_words_can_be_read(browser, folders):
    """Contrast of every text with what is behind it, by WCAG: 4.5 for text of this size; plots are apart."""
    script = """
      const light = c => { c = c / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
      const parse = text => text.match(/[\\d.]+/g).map(Number);
      const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
      const behind = e => { for (; e; e = e.parentElement) {
        const color = parse(getComputedStyle(e).backgroundColor); if (color.length < 4 || color[3] > 0) return color; }
        return [255, 255, 255]; };
      const bad = [];
      for (const e of document.body.querySelectorAll('*')) {
        const has_text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (e.closest('svg') || e.closest('.zero') || !has_text) continue;
        const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) bad.push(e.textContent.slice(0, 40) + ' ' + contrast.toFixed(2));
      }
      return bad;
    """
    for scheme in ("light", "dark"):
        show(browser, folders["demo"] / "report.html", scheme)
        assert browser.execute_script(script) == []
