"""Pieces of the page as text: pictures, bars, strips and curves.

Pictures travel inside the page as data addresses, so that the server writes and serves no files.
Colours are the theme's variables, so that light and dark both work.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO

import numpy as np
from jaxtyping import Float
from PIL import Image

from transop.plotting import COLOURS

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 60, 28  # of a curve, in its own units


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


def picture(image: Float[np.ndarray, "c h w"], words: str, *, size: str = "large") -> str:
    """Show an image enlarged with crisp pixels; ``words`` describe it to those who cannot see."""
    source = address(png(image), "image/png")
    return f'<img class="tp-{size}" src="{source}" alt="{escape(words)}">'


def captioned(image: Float[np.ndarray, "c h w"], words: str, *, size: str = "large") -> str:
    """Show an image with words below it."""
    shown = picture(image, words, size=size)
    return f"<figure>{shown}<figcaption>{escape(words)}</figcaption></figure>"


def notice(words: str, *, tone: str = "plain") -> str:
    """Say something; tones are plain, missing (a part that is not there) and beyond (a mark)."""
    return f'<p class="tp-notice tp-{tone}" role="status">{escape(words)}</p>'


def bars(values: Sequence[float], names: Sequence[str], *, unit: str = "percent") -> str:
    """Draw values as horizontal bars with their names; percent means shares of 1."""
    top = 1.0 if unit == "percent" else max([*values, 1e-12])
    rows = []
    for name, value in zip(names, values, strict=True):
        text = f"{value:.0%}" if unit == "percent" else f"{value:.3g}"
        rows.append(
            f'<div class="tp-bar"><span>{escape(name)}</span>'
            f'<div><i style="width:{100 * max(0.0, value) / top:.1f}%"></i></div>'
            f"<b>{text}</b></div>"
        )
    return f'<div class="tp-bars">{"".join(rows)}</div>'


def strip(
    frames: Float[np.ndarray, "t c h w"], captions: Sequence[str], title: str, *, marked: int = -1
) -> str:
    """Lay images side by side under a title; one may be outlined."""
    cells = []
    for number, (frame, words) in enumerate(zip(frames, captions, strict=True)):
        label = f"{title}, {words}"
        css = ' class="tp-marked"' if number == marked else ""
        shown = picture(frame, label, size="small")
        cells.append(f"<figure{css}>{shown}<figcaption>{escape(words)}</figcaption></figure>")
    return f'<p class="tp-title">{escape(title)}</p><div class="tp-strip">{"".join(cells)}</div>'


def curves(
    x: Sequence[float],
    lines: Sequence[tuple[str, Sequence[float], bool]],
    *,
    title: str,
    limits: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
) -> str:
    """Draw named lines over x.

    Args:
        x: where.
        lines: name, values and whether the line is dashed; a dashed line takes the colour of
            the solid one of the same place among its kind.
        title: what is drawn, also for screen readers.
        limits: of the vertical axis; from the data if left out.
        marks: places on x with a thin vertical line.
    """
    values = np.array([line for _, line, _ in lines], dtype=float)
    finite = values[np.isfinite(values)]
    low, high = limits or ((float(finite.min()), float(finite.max())) if finite.size else (0, 1))
    span_x, span_y = max(x[-1] - x[0], 1e-12), max(high - low, 1e-12)

    def place(at: float, value: float) -> tuple[float, float]:
        right, up = (at - x[0]) / span_x, (value - low) / span_y
        return (
            _LEFT + right * (_WIDTH - _LEFT - 8),
            (_HEIGHT - _BOTTOM) * (1 - min(max(up, 0.0), 1.0)) + 4,
        )

    parts = [_axes(x, low, high), *(_upright(place(mark, low)[0]) for mark in marks)]
    counts = {True: 0, False: 0}
    legend = []
    for name, line, dashed in lines:
        colour = COLOURS[counts[dashed] % (len(COLOURS) - 1)]
        counts[dashed] += 1
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(at, value))
            for at, value in zip(x, line, strict=True)
            if np.isfinite(value)
        )
        dash = ' stroke-dasharray="6 5"' if dashed else ""
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>'
        )
        kind = "dashed" if dashed else "solid"
        legend.append(f'<span><i style="border-top:3px {kind} {colour}"></i>{escape(name)}</span>')
    return (
        f'<p class="tp-title">{escape(title)}</p>'
        f'<svg class="tp-curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
        f'<div class="tp-legend">{"".join(legend)}</div>'
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


def _axes(x: Sequence[float], low: float, high: float) -> str:
    floor = _HEIGHT - _BOTTOM + 4
    text = 'fill="currentColor" font-size="13"'
    return (
        f'<path d="M{_LEFT} 4V{floor}H{_WIDTH - 8}" fill="none" stroke="currentColor" '
        'stroke-opacity=".5"/>'
        f'<text x="{_LEFT - 5}" y="15" text-anchor="end" {text}>{high:.3g}</text>'
        f'<text x="{_LEFT - 5}" y="{floor}" text-anchor="end" {text}>{low:.3g}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}" {text}>{x[0]:.3g}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end" {text}>{x[-1]:.3g}</text>'
    )


def _upright(at: float) -> str:
    return (
        f'<path d="M{at:.1f} 4V{_HEIGHT - _BOTTOM + 4}" stroke="currentColor" '
        'stroke-opacity=".35" stroke-dasharray="2 4"/>'
    )
