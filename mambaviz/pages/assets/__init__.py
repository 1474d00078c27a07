"""Files that the browser gets from the pages: logo, style sheets, scripts of the page frame."""

from pathlib import Path

_HERE = Path(__file__).parent

LOGO = _HERE / "logo.svg"
STYLE = _HERE / "page.css"
FRAME_SCRIPT = _HERE / "frame.js"
LINK_SCRIPT = _HERE / "copy_link.js"
LINK_STYLE = _HERE / "copy_link.css"
PICTURE_SCRIPT = _HERE / "picture.js"
PICTURE_STYLE = _HERE / "picture.css"
METADATA_STYLE = _HERE / "metadata.css"
COMPARE_STYLE = _HERE / "compare.css"
KERNELS_STYLE = _HERE / "kernels.css"
SIZES_STYLE = _HERE / "sizes.css"
EXPLORER_STYLE = _HERE / "explorer.css"
LEARN_STYLE = _HERE / "learn.css"
ABOUT_STYLE = _HERE / "about.css"

ASSETS: tuple[Path, ...] = (
    LOGO,
    STYLE,
    FRAME_SCRIPT,
    LINK_SCRIPT,
    LINK_STYLE,
    PICTURE_SCRIPT,
    PICTURE_STYLE,
    METADATA_STYLE,
    COMPARE_STYLE,
    KERNELS_STYLE,
    SIZES_STYLE,
    EXPLORER_STYLE,
    LEARN_STYLE,
    ABOUT_STYLE,
)
