"""What somebody does in the browser, and what is to come of it."""

import base64
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Callable

from benchlib.places import FIXTURES

from . import tree
from .colours import contrast, laid_over, parse
from .devtools import Page, Unseen

# WCAG 2.2, 1.4.3: of text that is not large.
CONTRAST_MIN = 4.5
OUTLINE_MIN_PX = 2
TAP_HEIGHT_MIN_PX = 40
# WCAG 2.2, 2.5.8.
TAP_WIDTH_MIN_PX = 24
PHONE_WIDTH_PX = 360
SCREEN_PX = (800, 730)
# Of the keyboard's way, which goes through all links of a page.
TABS_MAX = 60


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a check is given: a page of its own, and servers by their options."""

    page: Page
    serve: Callable[..., str]  # the directory and options → the URL, which ends with a slash
    tree: tree.Tree
    screenshots: pathlib.Path | None

    def listing(self, path: str = "") -> str:
        return self.serve(self.tree.listed, "--list") + path

    def screenshot(self, name: str) -> None:
        if self.screenshots:
            self.page.screenshot(self.screenshots / f"{name}.png")

    def put_side_by_side(self, name: str, parts: list[str]) -> None:
        """Screenshots that are there already, in one."""
        if self.screenshots:
            pictures = [base64.b64encode((self.screenshots / f"{part}.png").read_bytes()).decode() for part in parts]
            images = "".join(f"<img src='data:image/png;base64,{picture}'>" for picture in pictures)
            self.page.looks("light", len(parts) * SCREEN_PX[0], SCREEN_PX[1])
            self.page.open("about:blank")
            self.page.value(f'document.body.innerHTML = "{images}"; document.body.style = "display: flex; margin: 0";'
                            " Promise.all([...document.images].map(image => image.decode())).then(() => 0)")
            self.screenshot(name)


@dataclasses.dataclass(frozen=True)
class Check:
    title: str
    carry_out: Callable[[Scene], str]  # what was seen
    expected_trouble: str | None = None  # a pattern of what belongs on the console


def same(what: str, seen, expected) -> None:
    if seen != expected:
        raise Unseen(f"{what}: {seen!r}, and not {expected!r}")


def holds(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Unseen(otherwise)


LINKS = "[...document.querySelectorAll('a')]"
ROW_LINKS = "[...document.querySelectorAll('tbody a:not([rel=up])')]"


def shown_names(page: Page) -> list[str]:
    return page.value(f"{ROW_LINKS}.map(link => link.textContent)")


def row_named(name: str) -> str:
    return f"{ROW_LINKS}.find(link => link.textContent === {json.dumps(name)})"


def path_of(page: Page) -> str:
    return page.value("location.pathname")


# ---- The listing -------------------------------------------------------------------


def names_are_text(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("names/"))
    expected = [tree.HOSTILE_DIRECTORY + "/", *tree.HOSTILE.values()]
    same("the names", sorted(shown_names(page)), sorted(expected))
    for element in ("img", "script", "b"):
        same(f"elements {element}", page.value(f"document.getElementsByTagName('{element}').length"), 0)
    handlers = "[...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames()).filter(name => /^on/.test(name))"
    same("handlers", page.value(handlers), [])
    # Hovering and focusing is what a handler in a name would wait for.
    page.value(f"{LINKS}.forEach(link => {{ link.focus(); link.dispatchEvent(new MouseEvent('mouseover')); }})")
    same("the title", page.value("document.title"), "/names/")
    return f"{len(expected)} names, no element and no script of theirs, {len(tree.HIDDEN)} hidden ones not there"


def policy_holds(scene: Scene) -> str:
    """The reverse of the check before: were there a script in the page, the browser would not run it."""
    page = scene.page
    page.open(scene.listing("names/"))
    page.value(
        "{ const script = document.createElement('script'); script.textContent = 'window.hasRun = 1';"
        " document.body.append(script); const image = document.createElement('img');"
        " image.src = '/page/square.ttf'; document.body.append(image); }"
    )
    same("what an injected script did", page.value("typeof window.hasRun"), "undefined")
    refused = page.troubles()
    holds(len(refused) >= 2, f"the console says {refused}")
    return f"an injected script and an image were refused: {len(refused)} violations"


def many_names(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("many/"))
    same("the names", shown_names(page), [tree.many_name(number) for number in range(tree.MANY)])
    return f"{tree.MANY} names in their order"


def ways(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing())
    page.follow(row_named("nested/"))
    for name in tree.NESTED:
        page.follow(row_named(name + "/"))
    deepest = "/".join(["/nested", *tree.NESTED, ""])
    same("where the rows lead", path_of(page), deepest)
    page.follow("document.querySelector('a[rel=up]')")
    same("the way up", path_of(page), deepest.removesuffix(tree.NESTED[-1] + "/"))
    page.follow(f"{LINKS}.find(link => link.closest('nav') && /^nested/.test(link.textContent))")
    same("a breadcrumb", path_of(page), "/nested/")
    page.follow(f"{LINKS}.find(link => link.closest('nav'))")
    same("the first breadcrumb", path_of(page), "/")
    same("ways up from the root", page.value("document.querySelectorAll('a[rel=up]').length"), 0)
    page.call("Page.navigateToHistoryEntry", entryId=history_entry(page, -1))
    page.wait_for("Page.loadEventFired")
    same("the browser's way back", path_of(page), "/nested/")
    return f"{len(tree.NESTED) + 1} rows down, up, two breadcrumbs, back"


def history_entry(page: Page, offset: int) -> int:
    history = page.call("Page.getNavigationHistory")
    return history["entries"][history["currentIndex"] + offset]["id"]


def hostile_files(scene: Scene) -> str:
    page = scene.page
    for shown in tree.HOSTILE.values():
        page.open(scene.listing("names/"))
        page.follow(row_named(shown))
        same(f"the bytes of {shown}", page.value("document.body.innerText"), tree.content_of(shown))
    page.open(scene.listing("names/"))
    page.follow(row_named(tree.HOSTILE_DIRECTORY + "/"))
    same("names inside", shown_names(page), ["inside.txt"])
    return f"{len(tree.HOSTILE)} names clicked, and each one's bytes came; a directory of such a name"


def sorting(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("sorted/"))
    by = {
        "Name": lambda name: name.lower(),
        "Size": lambda name: tree.SORTED_FILES[name][0],
        "Modified": lambda name: tree.SORTED_FILES[name][1],
    }
    same("sorted at first", sorted_columns(page), [["Name", "ascending"]])
    for column in ("Size", "Modified", "Name"):
        for order in ("ascending", "descending", "ascending"):
            page.follow(f"{LINKS}.find(link => link.closest('th') && link.textContent.startsWith('{column}'))")
            same("aria-sort", sorted_columns(page), [[column, order]])
            names = shown_names(page)
            directories, files = names[: len(tree.SORTED_DIRECTORIES)], names[len(tree.SORTED_DIRECTORIES) :]
            is_descending = order == "descending"
            same(f"by {column}, {order}", files, sorted(tree.SORTED_FILES, key=by[column], reverse=is_descending))
            age = tree.SORTED_DIRECTORIES.get if column == "Modified" else str.lower
            expected = sorted(tree.SORTED_DIRECTORIES, key=age, reverse=is_descending)
            same(f"directories by {column}, {order}", directories, [name + "/" for name in expected])
    return "three columns, each ascending, descending and ascending again; directories first"


def sorted_columns(page: Page) -> list:
    return page.value(
        "[...document.querySelectorAll('[aria-sort]')].map(column => [column.textContent.match(/\\w+/)[0], column.ariaSort])"
    )


def keyboard(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("sorted/"))
    links = page.value(f"{LINKS}.map(link => link.href)")
    holds(0 < len(links) < TABS_MAX, f"{len(links)} links")
    for at, href in enumerate(links):
        page.press_tab()
        focused = page.value(
            "(() => { const style = getComputedStyle(document.activeElement);"
            " return [document.activeElement.href, style.outlineStyle, parseFloat(style.outlineWidth)]; })()"
        )
        same(f"link {at + 1} by Tab", focused[0], href)
        holds(focused[1] != "none" and focused[2] >= OUTLINE_MIN_PX, f"link {at + 1} has an outline {focused[1:]}")
    return f"{len(links)} links in their order, each with an outline of {OUTLINE_MIN_PX} px or more"


def phone(scene: Scene) -> str:
    page = scene.page
    page.looks("light", PHONE_WIDTH_PX, 740, scale=2, is_phone=True)
    lowest = None
    for path in ("names/", "nested/one/two/three/", "", tree.SHOWN + "/"):
        page.open(scene.listing(path))
        width, inner = page.value("[document.scrollingElement.scrollWidth, innerWidth]")
        holds(width <= inner == PHONE_WIDTH_PX, f"/{path} is {width} px wide in {inner} px")
        for text, height, breadth in page.value(
            f"{LINKS}.map(link => [link.textContent.slice(0, 30), link.getBoundingClientRect().height,"
            " link.getBoundingClientRect().width])"
        ):
            big_enough = height >= TAP_HEIGHT_MIN_PX and breadth >= TAP_WIDTH_MIN_PX
            holds(big_enough, f"/{path}: {text!r} is {breadth:.0f} by {height:.0f} px")
            lowest = min(height, lowest or height)
    scene.screenshot("phone")
    return f"{PHONE_WIDTH_PX} px without scrolling sideways; links are {lowest:.0f} px high or more"


def schemes(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing(tree.SHOWN + "/"))
    backgrounds, least = [], {}
    for scheme in ("light", "dark"):
        page.looks(scheme, *SCREEN_PX)
        texts = page.value(COLOURS)
        holds(len(texts) > len(tree.SHOWN_FILES), f"only {len(texts)} texts are there")
        ratios = {}
        for text, colour, *layers in texts:
            background = functools.reduce(lambda below, above: laid_over(parse(above), below), layers[1:], parse(layers[0]))
            ratios[text] = contrast(laid_over(parse(colour), background), background)
        backgrounds.append(texts[0][2])
        worst = min(ratios, key=ratios.get)
        least[scheme] = ratios[worst]
        holds(ratios[worst] >= CONTRAST_MIN, f"{scheme}: {worst!r} has a contrast of {ratios[worst]:.2f}")
        scene.screenshot(scheme)
    scene.put_side_by_side("listing", ["light", "dark"])
    holds(backgrounds[0] != backgrounds[1], f"both backgrounds are {backgrounds[0]}")
    return ", ".join(f"{scheme}: a contrast of {ratio:.1f} or more" for scheme, ratio in least.items())


# Of each text: itself, its colour, and the backgrounds it lies on, the undermost first.
COLOURS = """(() => {
  const canvas = document.createElement('i');
  canvas.style.color = 'Canvas';
  document.body.append(canvas);
  const undermost = getComputedStyle(canvas).color;
  canvas.remove();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim()) continue;
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.unshift(getComputedStyle(each).backgroundColor);
    texts.push([walker.currentNode.data.trim(), getComputedStyle(element).color, undermost, ...layers]);
  }
  return texts;
})()"""


# ---- Pages and media -------------------------------------------------------------------


def recording(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("media/"))
    duration = page.value(
        "new Promise((resolve, reject) => { const audio = document.querySelector('audio');"
        " audio.onerror = () => reject(new Error(audio.error.message));"
        " audio.readyState ? resolve(audio.duration) : audio.onloadedmetadata = () => resolve(audio.duration); })"
    )
    same("the duration", round(duration), tree.RECORDING_S)
    to_s = tree.RECORDING_S - 10
    reached = page.value(
        "new Promise((resolve, reject) => { const audio = document.querySelector('audio');"
        " audio.onerror = () => reject(new Error(audio.error.message));"
        f" audio.onseeked = () => resolve(audio.currentTime); audio.currentTime = {to_s}; }})"
    )
    same("the time sought", round(reached), to_s)
    ranges = []
    for event in page.events("Network.responseReceived"):
        response = event["response"]
        fields = {name.lower(): value for name, value in response["headers"].items()}
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields.get("content-range", ""))
        if response["url"].endswith(".wav") and response["status"] == 206 and found:
            ranges.append(tuple(int(number) for number in found.groups()))
            same("the length of a part", int(fields["content-length"]), ranges[-1][1] - ranges[-1][0] + 1)
    far = [part for part in ranges if part[0] > tree.RECORDING_BYTES // 2]
    holds(bool(far), f"no part from far ahead came, but {ranges}")
    holds(all(part[1:] == (tree.RECORDING_BYTES - 1, tree.RECORDING_BYTES) for part in far), f"the parts are {far}")
    return f"sought second {to_s} of {tree.RECORDING_S}: 206, bytes {far[-1][0]}-{far[-1][1]}/{far[-1][2]}"


def page_of_all_types(scene: Scene) -> str:
    page = scene.page
    page.open(scene.listing("page/"))
    summed = page.value(
        "new Promise(resolve => { const look = () => document.title.startsWith('sum') ? resolve(document.title)"
        " : requestAnimationFrame(look); look(); })"
    )
    same("the module's sum", summed, "sum 42")
    same("the font", page.value("[...document.fonts].map(font => `${font.family} ${font.status}`)"), ["Square loaded"])
    width = page.value("document.getElementById('text').getBoundingClientRect().width")
    same("the width of its four letters", round(width), 4 * 16 * 3)
    same("the colour", page.value("getComputedStyle(document.getElementById('text')).color"), "rgb(1, 2, 3)")
    types = {
        event["response"]["url"].rpartition("/")[2]: event["response"]["headers"].get("Content-Type")
        for event in page.events("Network.responseReceived")
    }
    same("the type of the module", types["add.wasm"], "application/wasm")
    same("the type of the font", types["square.ttf"], "font/ttf")
    return "css applied, module script run, wasm instantiated while it came, font used"


def fixtures(scene: Scene) -> str:
    page = scene.page
    page.open(scene.serve(FIXTURES))
    lines = page.value(
        "new Promise(resolve => { const look = () => { const lines = [...document.querySelectorAll('#checks li')];"
        " lines.length >= 3 ? resolve(lines.map(line => line.textContent)) : requestAnimationFrame(look); }; look(); })"
    )
    holds(not any("failed" in line for line in lines), f"the page says {lines}")
    images = page.value("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
    same("the images", images, [True, True])
    return f"its {len(lines)} checks of itself pass, its images are there"


def single_page(scene: Scene) -> str:
    page = scene.page
    page.open(scene.serve(scene.tree.app, "--spa"))
    page.click("document.getElementById('deep')")
    same("the title after a click", page.value("document.title"), "app at /deep/route")
    page.reload()
    same("the title after a reload", page.value("document.title"), "app at /deep/route")
    return "a deep route is there after a reload"


def error_page(scene: Scene) -> str:
    page = scene.page
    page.open(scene.serve(scene.tree.app, "--error-page", "404=/404.html") + "no/such/page")
    same("the title", page.value("document.title"), "our own 404")
    statuses = [event["response"]["status"] for event in page.events("Network.responseReceived")]
    same("the statuses", statuses, [404])
    return "the site's own page, with status 404"


def json_of_another_origin(scene: Scene) -> str:
    page = scene.page
    closed, opened = scene.listing(), scene.serve(scene.tree.listed, "--list", "--cors")
    page.open(closed + "page/")
    expected = sorted([*tree.SORTED_FILES, *tree.SORTED_DIRECTORIES])
    for what, base in (("of its own origin", closed), ("of another origin", opened)):
        asked = f"fetch('{base}sorted/', {{headers: {{Accept: 'application/json'}}}}).then(answer => answer.json())"
        same(f"the names {what}", sorted(row["name"] for row in page.value(asked)), expected)
    preflighted = f"fetch('{opened}sorted/?format=json', {{headers: {{'X-Asked': '1'}}}}).then(answer => answer.status)"
    same("the status behind a preflight", page.value(preflighted), 200)
    page.open(opened + "page/")
    refused = f"fetch('{closed}sorted/').then(() => 'answered', () => 'refused')"
    same("what the browser does without --cors", page.value(refused), "refused")
    return "read from its own and with --cors from another origin, also behind a preflight; not without --cors"


CHECKS = [
    Check("hostile names are text", names_are_text),
    Check("nothing in a listing can run", policy_holds, r"Content Security Policy"),
    Check("many names", many_names),
    Check("ways down, up and back", ways),
    Check("files of hostile names", hostile_files),
    Check("sorting", sorting),
    Check("keyboard", keyboard),
    Check("phone", phone),
    Check("light and dark", schemes),
    Check("a recording is sought", recording),
    Check("css, js, wasm and a font", page_of_all_types),
    Check("the page of fixtures/", fixtures),
    Check("single-page application", single_page),
    Check("error page", error_page, r"the server responded with a status of 404"),
    Check("JSON for scripts", json_of_another_origin, r"blocked by CORS policy|net::ERR_FAILED"),
]
