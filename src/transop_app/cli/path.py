"""``transop path``: interpolate and extrapolate between two images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transop.errors import DataError, UserError
from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from transop.model import ManifoldAutoencoder

_KINDS = (".png", ".svg", ".gif")
_MOST_FRAMES = 500
_FARTHEST = 1e30  # beyond it single precision ends


def path(
    ctx: typer.Context,
    run: options.Run,
    start: Annotated[Path, typer.Argument(metavar="A.png", help="Where to start.")],
    end: Annotated[Path, typer.Argument(metavar="B.png", help="Where to go.")],
    times: Annotated[
        str | None,
        typer.Option(
            "--t",
            metavar="T,T,... | FROM:TO:COUNT",
            help="Where on the path: 0 is the start, 1 the end, more extrapolates.",
            show_default="0:2:9, for a GIF 0:2:41",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="A .png or .svg strip, or a .gif.")] = Path("path.png"),
    as_json: options.Json = False,
) -> None:
    """Draw the path from one image to another and beyond, along the learned operators."""
    require("report", "drawing the path")
    terminal: Terminal = ctx.obj
    kind = _kind_of(out)
    chosen = parse_times(times or ("0:2:41" if kind == ".gif" else "0:2:9"))

    import numpy as np

    from transop.artifacts import write_atomically
    from transop.run import Run

    model = Run.open(run).require_phase("operators")
    x0, x1 = (load_picture(terminal, file, model) for file in (start, end))
    found = model.infer(x0, x1)
    frames = model.path(x0, x1, t=chosen).numpy()
    if not np.isfinite(frames).all():
        furthest = max(chosen, key=abs)
        raise UserError(f"--t: the path overflows at t = {furthest:g}; ask for less")
    write_atomically(out, _draw(kind, [x0.numpy(), x1.numpy()], frames, chosen))
    coefficients, residual = found.coefficients[0].tolist(), float(found.residual[0])
    converged = bool(found.converged[0])
    if as_json:
        facts = {
            "coefficients": coefficients,
            "objective": float(found.objective[0]),
            "relative_residual": residual,
            "converged": converged,
            "t": chosen,
            "file": str(out),
        }
        terminal.result_json(facts)
        return
    used = sum(value != 0 for value in coefficients)
    terminal.notice(
        f"{used} of {len(coefficients)} operators used; at t = 1 the path ends {residual:.0%} of "
        "|z1| from the end image" + ("" if converged else " (inference did not converge)")
    )
    terminal.result(str(out))


def parse_times(text: str) -> list[float]:
    """Read ``0,0.5,1`` or ``0:2:9`` (from, to, how many) as numbers."""
    try:
        if ":" in text:
            first, last, count = text.split(":")
            low, high, n = float(first), float(last), int(count)
            times = [
                low + (high - low) * i / max(1, n - 1) for i in range(min(n, _MOST_FRAMES + 1))
            ]
        else:
            times = [float(part) for part in text.split(",")]
    except ValueError:
        times = []
    if not (0 < len(times) <= _MOST_FRAMES and all(abs(t) <= _FARTHEST for t in times)):
        raise UserError(
            f"--t '{text}' is not a list such as 0,0.5,1 or a range such as 0:2:9 "
            f"(from:to:count) of at most {_MOST_FRAMES} numbers up to {_FARTHEST:g}"
        )
    return times


def load_picture(terminal: Terminal, file: Path, model: ManifoldAutoencoder) -> Tensor:
    """Read an image file as the model wants it, saying what had to be changed."""
    import torch

    from transop.data import UnreadablePicture, read_header, read_picture
    from transop.files import open_regular, reason_of

    channels, size, _ = model.image_shape
    try:
        with open_regular(file) as stream:
            header = read_header(stream)
            stream.seek(0)
            pixels = read_picture(stream, size, channels)
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"there is no image file '{file}'") from None
    except UnreadablePicture as error:
        raise DataError(f"'{file}' is not a readable image: {error}") from None
    except OSError as error:
        raise DataError(f"'{file}' cannot be read: {reason_of(error)}") from None
    changes = []
    if not header.is_square:
        changes.append("cropped to its central square")
    if header.shorter_side != size:
        changes.append(f"resized to {size} x {size}")
    if header.is_grey != (channels == 1):
        changes.append(f"turned to {'grey' if channels == 1 else 'three channels'}")
    if changes:
        terminal.notice(f"'{file}' was {', '.join(changes)} to fit the model")
    return torch.from_numpy(pixels.copy()).float() / 255


def _kind_of(out: Path) -> str:
    kind = out.suffix.lower()
    if kind not in _KINDS:
        raise UserError(f"--out '{out}' must end in {', '.join(_KINDS[:-1])} or {_KINDS[-1]}")
    if out.is_dir():
        raise UserError(f"--out '{out}' is a folder; give a file name")
    return kind


def _draw(kind: str, images: list[np.ndarray], frames: np.ndarray, times: list[float]) -> bytes:
    """Draw the frames as a GIF, or as a strip between the two given images."""
    import numpy as np

    from transop.plotting import animate, image_grid, render_figure

    if kind == ".gif":
        return animate(frames)
    strip = np.concatenate([images[0][None], frames, images[1][None]])[None]
    labels = ["start", *(f"t = {t:.3g}" for t in times), "end"]
    figure = image_grid(strip, column_labels=labels, boxed=[(0, 0), (0, len(labels) - 1)])
    return render_figure(figure, "svg" if kind == ".svg" else "png")
