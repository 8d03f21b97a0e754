"""Pieces of the page as HTML: pictures, bars, strips and curves.

Pictures travel inside the page as data addresses, so that the server writes and serves no files.
Colours are the theme's variables, so that light and dark both work.
"""

import base64
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from io import BytesIO

import numpy as np
from jaxtyping import Float
from PIL import Image

from transop.colours import COLOURS

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 76, 28  # of a curve, in its own units


def asset(name: str) -> str:
    """Read a style sheet or script of the page."""
    return files("transop_app.explorer").joinpath("static", name).read_text("utf-8")


def png(image: Float[np.ndarray, "c h w"]) -> bytes:
    """Encode an image with values in [0, 1], one byte per value."""
    pixels = np.rint(np.nan_to_num(image).clip(0, 1) * 255).astype(np.uint8)
    buffer = BytesIO()
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    picture.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def address(content: bytes, kind: str) -> str:
    """Write bytes as a data address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def picture(content: bytes, kind: str, words: str, *, look: str) -> str:
    """Show a picture file; ``words`` describe it to those who cannot see."""
    return f'<img class="tp-{look}" src="{address(content, kind)}" alt="{escape(words)}">'


def captioned(
    image: Float[np.ndarray, "c h w"], caption: str, *, look: str = "large", about: str = ""
) -> str:
    """Show an image enlarged with crisp pixels and with words below it."""
    shown = picture(png(image), "image/png", about + caption, look=look)
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"


def without_folders(text: str) -> str:
    """Shorten absolute paths to their last part, so that the page shows no folder of the server."""
    return re.sub(r"(?<![\w.:/~-])(?:~|[A-Za-z]:)?(?:[/\\][^\s'\"<>/\\]+)+(?=[/\\])", "...", text)


def notice(words: str, *, tone: str = "plain") -> str:
    """Say something; tones are plain, missing (a part that is not there) and beyond (a mark)."""
    return f'<p class="tp-notice tp-{tone}" role="status">{escape(words)}</p>'


def heading(words: str) -> str:
    """Say what the drawing below shows."""
    return f'<p class="tp-title">{escape(words)}</p>'


def bars(values: Sequence[float], names: Sequence[str], *, unit: str = "percent") -> str:
    """Draw values as horizontal bars with their names.

    ``unit`` is percent for shares of 1, plain for sizes, signed for bars to either side of
    zero.
    """
    top = 1.0 if unit == "percent" else max([*map(abs, values), 1e-12])
    formats = {"percent": ".0%", "plain": ".3g", "signed": "+.3g"}
    rows = []
    for name, value in zip(names, values, strict=True):
        length = 100 * min(abs(value) / top, 1.0)
        place = f"width:{length:.1f}%"
        if unit == "signed":
            left = 50 - length / 2 if value < 0 else 50
            place = f"width:{length / 2:.1f}%;margin-left:{left:.1f}%"
        rows.append(
            f"<div><span>{escape(name)}</span>"
            f'<div><i style="{place}"></i></div><b>{value:{formats[unit]}}</b></div>'
        )
    return f'<div class="tp-bars tp-{unit}">{"".join(rows)}</div>'


def strip(
    frames: Float[np.ndarray, "t c h w"],
    captions: Sequence[str] | None,
    title: str,
    *,
    marked: int = -1,
) -> str:
    """Lay images side by side under a title; one may be outlined."""
    captions = captions or [""] * len(frames)
    cells = [
        captioned(
            frame,
            words,
            look="small tp-marked" if number == marked else "small",
            about=title + ", ",
        )
        for number, (frame, words) in enumerate(zip(frames, captions, strict=True))
    ]
    return f'{heading(title)}<div class="tp-strip">{"".join(cells)}</div>'


def curves(
    x: Sequence[float],
    lines: Sequence[tuple[str, Sequence[float], bool]],
    *,
    title: str,
    limits: tuple[float, float] | None = None,
    ticks: Sequence[float] = (),
    is_logarithmic: bool = False,
) -> str:
    """Draw named lines over x.

    Args:
        x: where.
        lines: name, values and whether the line is dashed; a dashed line takes the colour of
            the solid one of the same place among its kind.
        title: what is drawn, also for screen readers.
        limits: of the vertical axis; from the data if left out.
        ticks: places on x between the ends that are named and marked with a thin vertical line.
        is_logarithmic: whether the vertical axis is; values must then be positive.
    """
    values = np.array([line for _, line, _ in lines], dtype=float)
    finite = values[np.isfinite(values)]
    low, high = limits or ((float(finite.min()), float(finite.max())) if finite.size else (0, 1))
    warp = np.log10 if is_logarithmic else np.asarray
    floor, span = float(warp(low)), max(float(warp(high)) - float(warp(low)), 1e-12)

    def height(value: float) -> float:
        share = (float(warp(value)) - floor) / span
        return (_HEIGHT - _BOTTOM) * (1 - min(max(share, 0.0), 1.0)) + 4

    parts = [_axes(x, low, high), *(_upright(_across(x, tick), tick) for tick in ticks)]
    counts = {True: 0, False: 0}
    legend = []
    for name, line, dashed in lines:
        colour = COLOURS[counts[dashed] % (len(COLOURS) - 1)]
        counts[dashed] += 1
        points = " ".join(
            f"{_across(x, at):.1f},{height(value):.1f}"
            for at, value in zip(x, line, strict=True)
            if np.isfinite(value)
        )
        kind = "dashed" if dashed else "solid"
        parts.append(f'<polyline class="tp-{kind}" points="{points}" stroke="{colour}"/>')
        legend.append(f'<span><i style="border-top:3px {kind} {colour}"></i>{escape(name)}</span>')
    return (
        f'{heading(title)}<svg class="tp-curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
        + (f'<div class="tp-legend">{"".join(legend)}</div>' if len(lines) > 1 else "")
    )


def download(content: bytes, kind: str, name: str, words: str) -> str:
    """Offer bytes as a file to save."""
    return (
        f'<a class="tp-save" download="{escape(name)}" href="{address(content, kind)}">'
        f"{escape(words)}</a>"
    )


def table(rows: Sequence[tuple[str, str]]) -> str:
    """List names and values."""
    cells = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return f'<table class="tp-table">{cells}</table>'


def ramp(share: float) -> str:
    """Turn a share from 0 to 1 into a colour from dark violet over teal to light yellow."""
    stops = np.array([(64, 20, 100), (33, 130, 140), (245, 226, 60)], dtype=float)
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(place), len(stops) - 2)
    mixed = stops[left] + (place - left) * (stops[left + 1] - stops[left])
    return "#" + "".join(f"{round(value):02x}" for value in mixed)


def colour_bar(low: float, high: float, words: tuple[str, str]) -> str:
    """Explain the colours of ``ramp``: the values at its ends and what they mean."""
    stops = ",".join(ramp(share) for share in (0.0, 0.5, 1.0))
    ends = [f"{escape(word)}: {value:.3g}" for word, value in zip(words, (low, high), strict=True)]
    bar = f'<i style="background:linear-gradient(to right,{stops})"></i>'
    return f'<div class="tp-scale"><span>{ends[0]}</span>{bar}<span>{ends[1]}</span></div>'


def _across(x: Sequence[float], at: float) -> float:
    share = (at - x[0]) / max(x[-1] - x[0], 1e-12)
    return _LEFT + share * (_WIDTH - _LEFT - 8)


def _axes(x: Sequence[float], low: float, high: float) -> str:
    floor = _HEIGHT - _BOTTOM + 4
    return (
        f'<path d="M{_LEFT} 4V{floor}H{_WIDTH - 8}"/>'
        f'<text x="{_LEFT - 5}" y="15" text-anchor="end">{_short(high)}</text>'
        f'<text x="{_LEFT - 5}" y="{floor}" text-anchor="end">{_short(low)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{_short(x[0])}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end">{_short(x[-1])}</text>'
    )


def _upright(at: float, value: float) -> str:
    return (
        f'<path d="M{at:.1f} 4V{_HEIGHT - _BOTTOM + 4}" stroke-dasharray="2 4"/>'
        f'<text x="{at:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{_short(value)}</text>'
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
