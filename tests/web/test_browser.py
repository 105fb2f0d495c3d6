"""The explorer in a real browser: pages without complaints, pictures with the right pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

import frazil.web
from tests.web.browser import Visit, launched
from tests.web.samples import HOSTILE, ODD
from tests.web.test_pages import PAGES

SCRIPTS = Path(frazil.web.__file__).parent / "static"
SCALES = dict(re.findall(r'(\w+):\s*"([0-9a-f]+)"', (SCRIPTS / "colours.js").read_text()))
ARRAYS = ("known", "packed", "one", "empty", "scalar", "line", "words", "large", "flags", "big")

LIGHT, DARK = "rgb(248, 250, 251)", "rgb(16, 23, 29)"
LAPTOP: ViewportSize = {"width": 1280, "height": 1100}
PHONE: ViewportSize = {"width": 390, "height": 800}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def window(browser: Browser, site: str) -> Iterator[Visit]:
    """One window for all tests: what it has loaded once it need not load again."""
    context = browser.new_context(viewport=LAPTOP, color_scheme="light")
    yield Visit(context.new_page(), site)
    context.close()


@pytest.fixture
def visit(window: Visit) -> Iterator[Visit]:
    """The window, which may neither complain nor ask elsewhere."""
    window.complaints.clear()
    window.elsewhere.clear()
    yield window
    assert window.complaints == []
    assert window.elsewhere == []


def shade(value: float, low: float, high: float, scale: str = "viridis") -> tuple[int, ...]:
    """The colour of a value between two ends."""
    step = max(0, min(255, int((value - low) / (high - low) * 256))) if high > low else 128
    return (*bytes.fromhex(SCALES[scale][6 * step : 6 * step + 6]), 255)


def paper(visit: Visit) -> str:
    """The colour behind everything."""
    found = visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return str(found)


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_a_laptop_and_a_phone_in_the_dark(visit: Visit, page: str) -> None:
    visit.open(f"/r/ocean/{page}")
    assert not visit.overflows()
    assert paper(visit) == LIGHT
    try:
        visit.page.set_viewport_size(PHONE)
        visit.page.emulate_media(color_scheme="dark")
        visit.page.wait_for_timeout(150)  # pictures are laid out anew when resizing has ended
        visit.settle()
        assert not visit.overflows()
        assert paper(visit) == DARK
    finally:
        visit.page.set_viewport_size(LAPTOP)
        visit.page.emulate_media(color_scheme="light")


def test_the_button_changes_the_colours_and_they_stay(visit: Visit) -> None:
    page = visit.open("/r/ocean/operations")
    try:
        page.locator("#theme").click()
        assert paper(visit) == DARK
        page.reload()
        assert paper(visit) == DARK
        page.locator("#theme").click()
        assert paper(visit) == LIGHT
    finally:
        page.evaluate("localStorage.clear()")  # the window is for other tests too


@pytest.mark.parametrize(
    "page", ["", "history", "commit", "tree", "diff", "operations", "storage", "fsck?run=1"]
)
def test_hostile_text_stays_text(visit: Visit, page: str) -> None:
    visit.open(f"/r/odd-place/{page}")
    visit.page.wait_for_timeout(100)
    assert visit.page.evaluate("window.hacked") is None
    assert (
        visit.page.locator("main img, main b:has-text('bold'), main script:not([type])").count()
        == 0
    )
    assert not visit.overflows()


@pytest.mark.parametrize("name", [ODD, "t?ok#en=1&v=x"])
def test_odd_names_lead_through_the_tree_to_the_values(visit: Visit, name: str) -> None:
    page = visit.open("/r/odd-place/tree")
    page.get_by_role("link", name=name, exact=True).click()
    visit.settle()
    page.get_by_role("link", name="Show the data").click()
    visit.settle()
    assert visit.pixel(3, 5) == shade(23, 0, 23)
    assert visit.page.evaluate("window.hacked") is None
    assert HOSTILE in page.locator(".axes").text_content()  # type: ignore[operator]


@pytest.mark.parametrize("name", ARRAYS)
def test_every_kind_of_array_is_shown(visit: Visit, name: str) -> None:
    page = visit.open(f"/r/odd-place/data?path=/{name}")
    assert page.locator("#view").get_attribute("data-ready") == "1"


def test_the_picture_has_the_right_pixels(visit: Visit) -> None:
    main = "/r/odd-place/data?path=/known&v="
    visit.open(main + quote("tag <i>"))
    assert visit.size() == (3, 5)
    for row in range(3):
        for column in range(5):
            found = visit.pixel(row, column)
            if (row, column) == (1, 2):
                assert found[3] == 0  # missing: what is behind it shows
            else:
                assert found == shade(row * 5 + column, 0, 14)


def test_packed_one_cell_and_empty_pictures(visit: Visit) -> None:
    visit.open("/r/odd-place/data?path=/packed")
    assert visit.pixel(0, 1) == shade(11, 10, 15)
    assert visit.pixel(1, 0)[3] == 0
    visit.page.locator("#raw").check()
    visit.settle()
    assert visit.pixel(1, 0) == shade(-1, -1, 10)
    visit.open("/r/odd-place/data?path=/one")
    assert visit.size() == (1, 1)
    assert visit.pixel(0, 0) == shade(7, 7, 7)
    page = visit.open("/r/odd-place/data?path=/empty")
    expect(page.locator("#pointer")).to_have_text("This part of the array has no cells.")


def test_the_chosen_range_and_colours_count(visit: Visit) -> None:
    visit.open("/r/odd-place/data?path=/known&lo=0&hi=4&colours=grey")
    assert visit.pixel(2, 4) == (255, 255, 255, 255)
    assert visit.pixel(0, 1) == (64, 64, 64, 255)
    visit.page.locator("#colours").select_option("viridis")
    visit.settle()
    assert visit.pixel(0, 1) == shade(1, 0, 4)
    assert "colours=viridis" in visit.page.url


def test_north_is_up(visit: Visit) -> None:
    page = visit.open("/r/ocean/data?path=/depth")
    # Row 0 is the southernmost: it is drawn at the bottom.
    assert visit.pixel(71, 0) == shade(0, 0, 72 * 144 - 1)
    assert "degrees_north" in page.locator(".axes").text_content()  # type: ignore[operator]


def test_a_slider_changes_the_picture_and_the_address(visit: Visit) -> None:
    page = visit.open("/r/ocean/data?path=/sst")
    before = visit.pixel(40, 60)
    page.locator("[data-axis='0']").fill("6")
    visit.settle()
    assert visit.pixel(40, 60) != before
    assert "i0=6" in page.url
    expect(page.locator(".sliders .where")).to_have_text("2026-05-07 [6]")
    # The address alone brings the same picture back.
    after = visit.pixel(40, 60)
    visit.page.reload()
    visit.settle()
    assert visit.pixel(40, 60) == after
    page.keyboard.press("]")
    visit.settle()
    assert "i0=7" in page.url


def test_the_value_under_the_pointer_and_the_line_through_it(visit: Visit) -> None:
    page = visit.open("/r/odd-place/data?path=/known")
    box = page.locator("canvas.plane").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9
    page.mouse.move(x, y)
    expect(page.locator("#pointer b")).to_have_text("14")
    page.mouse.click(x, y)
    expect(page.locator(".line .plot")).to_be_visible()
    expect(page.locator("#pointer .exact")).to_have_text(re.compile("exactly 14.0"))
    assert "p=2%2C4" in page.url
    page.locator("canvas.plane").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#pointer b")).to_have_text("13")


def test_dragging_enlarges_and_a_double_click_shows_all(visit: Visit) -> None:
    page = visit.open("/r/odd-place/data?path=/known")
    box = page.locator("canvas.plane").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9, steps=4)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('canvas.plane').width === 3")
    assert visit.size() == (2, 3)
    assert "s1=2" in page.url
    page.locator("canvas.plane").dblclick()
    page.wait_for_function("() => document.querySelector('canvas.plane').width === 5")


def test_time_travel_shows_older_values(visit: Visit) -> None:
    page = visit.open("/r/odd-place/data?path=/known")
    expect(page.locator("#time")).to_be_visible()
    assert visit.pixel(0, 0) == shade(100, 1, 100)
    page.locator("#time").fill("0")
    visit.settle()
    page.wait_for_function("() => document.querySelector('#view').dataset.high === '14'")
    assert visit.pixel(0, 0) == shade(0, 0, 14)
    assert "t=" in page.url
    page.reload()
    page.wait_for_function("() => document.querySelector('#view').dataset.high === '14'")


def test_the_difference_of_two_versions(visit: Visit) -> None:
    page = visit.open("/r/odd-place/diff?b=main")
    expect(page.locator(".change")).to_have_count(1)
    page.get_by_role("link", name="Chunks and values").click()
    visit.settle()
    assert page.locator("#view").get_attribute("data-changed") == "1"
    before = visit.pixel(0, 0, ".before canvas.plane")
    after = visit.pixel(0, 0, ".after canvas.plane")
    assert before == shade(0, 0, 100)
    assert after == shade(100, 0, 100)
    nothing = visit.pixel(0, 1, ".difference canvas.plane")
    assert nothing == shade(0, -100, 100, "balance")
    assert min(nothing) > 240  # white, in the middle of the scale
    expect(page.locator(".chunkmap .legend")).to_contain_text("changed (1)")


def test_the_history_is_walked_with_keys(visit: Visit) -> None:
    page = visit.open("/r/ocean/history")
    expect(page.locator(".commit-row")).to_have_count(11)
    assert page.locator(".dot.merge").count() == 1
    page.locator("#history").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#row-1")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/commit?v=*")
    expect(page.locator("h1")).to_have_text("Temperature of days 19 and 20")
    page.go_back()
    visit.settle()
    page.locator("#q").fill("drift")
    expect(page.locator("#matches")).to_have_text("1 found")


def test_the_map_of_chunks_tells_what_is_under_the_pointer(visit: Visit) -> None:
    page = visit.open("/r/ocean/array?path=/sst&by=commit")
    expect(page.locator(".legend")).to_contain_text("Merge the calibration")
    box = page.locator(".chunkmap canvas").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    expect(page.locator(".told")).to_contain_text("native, 2 chunks")
    page.get_by_label("Coloured by").select_option("size")
    expect(page.locator(".legend .ramp")).to_be_visible()
    assert "by=size" in page.url


def test_maps_and_differences_are_walked_with_keys(visit: Visit) -> None:
    page = visit.open("/r/ocean/array?path=/sst&c1=0")
    page.locator(".chunkmap canvas").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".told")).to_contain_text("lon 0, time 0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".told")).to_contain_text("lon 1, time 1")
    page.keyboard.press("Enter")
    expect(page.locator(".told")).to_contain_text("chunk 1,0,1")
    page = visit.open("/r/odd-place/diff/array?b=main&path=/known")
    page.locator(".after canvas.plane").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".pointer b")).to_have_text("before 5, after 5, difference 0")


@pytest.mark.parametrize("address", ["tree", "operations", f"data?path=/{quote(ODD)}"])
def test_long_foreign_names_fit_a_phone(visit: Visit, address: str) -> None:
    try:
        visit.page.set_viewport_size(PHONE)
        page = visit.open(f"/r/odd-place/{address}")
        assert not visit.overflows()
        tab = page.locator(".tabs [aria-current]").bounding_box()
        assert tab is not None
        assert tab["x"] >= 0
        assert tab["x"] + tab["width"] <= PHONE["width"]
        for title in page.locator(".axes .title").all():
            box, frame = title.bounding_box(), page.locator(".frame").bounding_box()
            assert box is not None
            assert frame is not None
            assert box["y"] >= frame["y"] - 8
            assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 8
    finally:
        visit.page.set_viewport_size(LAPTOP)


def test_a_line_has_its_units_and_whole_labels(visit: Visit) -> None:
    page = visit.open("/r/ocean/data?path=/sst&i0=5&p=5,30,60")
    expect(page.locator(".line .plot .title").first).to_have_text("degC")
    page = visit.open("/r/ocean/data?path=/time")
    plot = page.locator(".stage .plot")
    left = plot.bounding_box()
    for label in plot.locator(".tick").all():
        box = label.bounding_box()
        assert box is not None
        assert left is not None
        assert box["x"] >= left["x"]
