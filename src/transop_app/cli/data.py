"""``transop data``: get a data set, or verify the one that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop_app.cli import options

if TYPE_CHECKING:
    from transop.data import ImageDataset
    from transop_app.cli.terminal import Terminal


def data(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="A data set's name, a folder, a .npy, .npz or .zip; none lists names."),
    ] = None,
    path: Annotated[
        Path | None, typer.Option(help="A folder that already holds the published files.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Convert to this size.")] = None,
    channels: Annotated[int | None, typer.Option(help="1 for grey, 3 for colour.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never use the network.")] = False,
    as_json: options.Json = False,
) -> None:
    """Get or check a data set, and name every source that was tried."""
    from transop.data import load_dataset

    terminal: Terminal = ctx.obj
    if name is None:
        _list_names(terminal, as_json)
        return
    dataset = load_dataset(
        name,
        path=path,
        image_size=image_size,
        channels=channels,
        offline=offline,
        progress=terminal.progress,
    )
    show_dataset(terminal, dataset, as_json=as_json)


def show_dataset(terminal: Terminal, dataset: ImageDataset, *, as_json: bool) -> None:
    """Print what a user wants to know about a data set."""
    meta = dataset.meta
    facts = {
        "name": meta.name,
        "n_images": len(dataset),
        "image_shape": list(dataset.image_shape),
        "splits": {split: len(rows) for split, rows in dataset.splits.items()},
        "classes": list(meta.class_names or map(str, range(dataset.n_classes))),
        "attributes": list(meta.attribute_names or ()),
        "factors": list(meta.factor_names or ()),
        "megabytes": round(dataset.images.nbytes / 1e6, 1),
        "content_hash": dataset.content_hash(),
        "source": meta.source,
        "sources_tried": list(meta.sources_tried),
        "notes": list(meta.notes),
    }
    if as_json:
        terminal.result_json(facts)
    else:
        _print_facts(terminal, facts)


def _list_names(terminal: Terminal, as_json: bool) -> None:
    from transop.data import known_datasets

    about = {
        name: (loader.__doc__ or "").strip().split("\n")[0]
        for name, loader in known_datasets().items()
    }
    if as_json:
        terminal.result_json(about)
        return
    for name, line in about.items():
        terminal.result(f"{name:14} {line}")


def _print_facts(terminal: Terminal, facts: dict[str, Any]) -> None:
    channels, height, width = facts["image_shape"]
    splits = ", ".join(f"{n:,} {split}" for split, n in facts["splits"].items())
    shown = facts["classes"][:12]
    more = f" and {len(facts['classes']) - 12} more" if len(facts["classes"]) > 12 else ""
    lines = {
        "images": f"{facts['n_images']:,} of {height} x {width} x {channels}",
        "splits": splits,
        "classes": (", ".join(shown) + more) or "none",
        "attributes": ", ".join(facts["attributes"]),
        "factors": ", ".join(facts["factors"]),
        "size": f"{facts['megabytes']:,} MB",
        "content": facts["content_hash"][:16],
        "source": facts["source"],
    }
    terminal.result(facts["name"])
    for title, line in lines.items():
        if line:
            terminal.result(f"  {title:11} {line}")
    for number, line in enumerate(facts["sources_tried"], start=1):
        terminal.result(f"  {'tried' if number == 1 else '':11} {number}. {line}")
    for note in facts["notes"]:
        terminal.result(f"  {'note':11} {note}")
