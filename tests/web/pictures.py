"""Make the pictures of the explorer in docs/pictures: `python -m tests.web.pictures`.

Look at them before committing: no overlap, no cut text, axes and units right.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from frazil.web.library import Library
from frazil.web.settings import ServerSettings
from tests.web.browser import Visit, launched
from tests.web.conftest import served
from tests.web.samples import make_ocean

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PICTURES = {
    "overview": ("", 960, "light"),
    "history": ("history", 700, "light"),
    "commit": ("commit?v=calibration", 700, "light"),
    "array": ("array?path=/sst&by=commit", 700, "light"),
    "data": ("data?path=/sst&i0=5&p=5,30,60", 1240, "light"),
    "compare": ("diff/array?a=v1&b=main&path=/sst&i0=5", 1150, "dark"),
}
"""Name, address, height and colours of each picture."""


def main() -> None:
    """Make all pictures."""
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="frazil-") as place:
        url = make_ocean(Path(place))
        library = Library([url], [str(Path(place) / "archive")])
        with served(library, ServerSettings(port=0)) as site, launched() as browser:
            for name, (page, height, colours) in PICTURES.items():
                context = browser.new_context(
                    viewport={"width": 1180, "height": height},
                    color_scheme="dark" if colours == "dark" else "light",
                )
                visit = Visit(context.new_page(), site)
                visit.open(f"/r/ocean/{page}")
                # The place differs from run to run, and is nobody's business.
                visit.page.evaluate(
                    """(place) => {
                        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                        while (walk.nextNode()) {
                            const node = walk.currentNode;
                            node.data = node.data.replaceAll(place, '/data');
                        }
                    }""",
                    place.rstrip("/"),
                )
                visit.page.screenshot(path=str(TARGET / f"{name}.png"))
                context.close()
                print(f"docs/pictures/{name}.png", *visit.complaints)


if __name__ == "__main__":
    main()
