"""``transop invariance``: which transformations a classifier ignores, by class and operator."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.errors import ArtifactError, UserError
from transop.extras import require
from transop_app.cli import options
from transop_app.cli.terminal import Terminal

if TYPE_CHECKING:
    from torch import nn

    from transop.evaluation import Invariance, Strip, Tolerance
    from transop.model import ManifoldAutoencoder
    from transop.plotting import Block
    from transop.run import Run

_SHOWN = 3  # strips of high and of low scales
_NAMED = 3  # operators listed per class


def invariance(
    ctx: typer.Context,
    run: options.Run,
    classifier: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="Ask this classifier instead; the function takes no arguments.",
            show_default="the run's own",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Its safetensors file; without one it is trained on the labels."),
    ] = None,
    data: options.Data = None,
    images: Annotated[int, typer.Option(min=1, help="Held-out images to look at.")] = 10_000,
    as_json: options.Json = False,
) -> None:
    """Say how far each class may go along each operator before its identity is lost.

    Without labels the classes are groups of similar images, found in the neighbour graph.

    For a classifier of your own, a coefficient encoder is trained first, once, in RUN/classifiers.
    """
    require("report", "drawing the invariances")
    terminal: Terminal = ctx.obj
    if weights is not None and classifier is None:
        raise UserError("--weights needs --classifier, which says what they are the weights of")

    from transop.evaluation import draw_strip, measure_invariance
    from transop.run import Run

    opened = Run.open(run, data=data, progress=terminal.progress)
    dataset = opened.dataset
    if classifier is None:
        model, folder = opened.model, run
    else:
        model, folder = _for_classifier(terminal, opened, classifier, weights)
    found = measure_invariance(model, dataset, n_images=images, progress=terminal.progress)
    high, low = found.extremes(_SHOWN)
    strips = {
        name: [draw_strip(model, dataset, found, cell) for cell in cells]
        for name, cells in (("high", high), ("low", low))
    }
    facts = _facts(found, high, low)
    files = _save(folder / "figures", found, strips, facts)
    if as_json:
        terminal.result_json(facts)
    else:
        _show(terminal, facts)
        terminal.notice(f"written: {', '.join(str(file) for file in files)}")


def _for_classifier(
    terminal: Terminal, opened: Run, factory: str, weights: Path | None
) -> tuple[ManifoldAutoencoder, Path]:
    """Train a coefficient encoder for the user's classifier, unless that has been done."""
    from transop.artifacts import RunFolder, write_atomically
    from transop.config import as_override, load_settings
    from transop.model import ManifoldAutoencoder
    from transop.training import call_factory, train

    sys.path.insert(0, os.getcwd())  # noqa: PTH109  (as `python -m` would)
    changes = [f"classifier.factory={factory}", "classifier.domain=image", "identity.source=auto"]
    if weights is not None:
        changes.append(as_override("classifier.weights", str(weights.absolute())))
    settings = opened.settings.updated(changes)
    name = "".join(c if c.isalnum() else "-" for c in factory)
    folder = RunFolder(opened.path / "classifiers" / name)
    if folder.model_file.exists() and folder.config_file.exists():
        with suppress(ArtifactError):  # where the function builds another network now
            own = call_factory(factory)
            done = ManifoldAutoencoder.from_pretrained(folder.path, classifier=own)
            is_done = "coefficient_encoder" in done.phases and _has_weights(own, factory, weights)
            if is_done and load_settings(folder.config_file) == settings:
                return done, folder.path
    shutil.rmtree(folder.path, ignore_errors=True)
    opened.require_phase("operators")
    bare = ManifoldAutoencoder.from_pretrained(opened.path)
    bare.classifier, bare.coefficient_encoder, bare.identity_facts = None, None, None
    bare.phases = tuple(p for p in bare.phases if p not in ("classifier", "coefficient_encoder"))
    bare.save_pretrained(folder.path)
    write_atomically(folder.config_file, settings.to_toml().encode())
    images = opened.dataset
    model: Any = train(settings, folder, dataset=images, resume=True, progress=terminal.progress)
    return model, folder.path


def _has_weights(classifier: nn.Module, factory: str, weights: Path | None) -> bool:
    """Say whether a classifier has the weights of a file: they may be others than last time."""
    import torch

    from transop.training import call_factory, load_weights

    if weights is None:
        return True
    wanted = call_factory(factory)
    load_weights(wanted, "classifier.weights", str(weights))
    pairs = zip(wanted.state_dict().values(), classifier.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def _facts(found: Invariance, high: list[Tolerance], low: list[Tolerance]) -> dict[str, Any]:
    classes = {}
    for label, name in enumerate(found.class_names):
        if found.counts[label]:
            ranking = [cell.operator for cell in found.ranking(label)]
            classes[name] = {
                "images": int(found.counts[label]),
                "scales": [round(float(value), 6) for value in found.scales[label]],
                "relative_moves": [round(float(value), 6) for value in found.moves[label]],
                "tolerates_most": ranking[:_NAMED],
                "tolerates_least": ranking[::-1][:_NAMED],
            }
    return {
        "identity": found.identity,
        "operators": list(found.operators),
        "classes": classes,
        "highest": [dataclasses.asdict(cell) for cell in high],
        "lowest": [dataclasses.asdict(cell) for cell in low],
    }


def _save(
    folder: Path, found: Invariance, strips: dict[str, list[Strip]], facts: dict[str, Any]
) -> list[Path]:
    """Write the numbers, and the table of scales with the strips beside it."""
    from transop.artifacts import write_json
    from transop_app.report.maps import HIGH, LOW, scale_map
    from transop_app.report.saved import save_figure

    write_json(folder / "invariance.json", facts)
    figure = scale_map(
        found.scales,
        [_block(found, strip, HIGH) for strip in strips["high"]],
        [_block(found, strip, LOW) for strip in strips["low"]],
        row_labels=found.class_names,
        column_labels=[str(m) for m in found.operators],
    )
    words = f"Outlined: frames that lose their identity ({found.identity})"
    figure.supxlabel(words, fontsize=8)
    written = save_figure(figure, folder / "invariance", {"scales": found.scales})
    return [folder / "invariance.json", *(file for file in written if file.suffix == ".png")]


def _block(found: Invariance, strip: Strip, colour: str) -> Block:
    from transop.plotting import Block

    cell, middle = strip.tolerance, len(strip.frames) // 2
    opinions = strip.opinions
    lost = [] if opinions is None else (opinions != opinions[middle]).nonzero()[0].tolist()
    name = found.class_names[cell.label]
    title = f"operator {cell.operator} on '{name}', scale {cell.scale:.3f}"
    return Block(
        strip.frames[None], title=title, boxed=[(0, frame) for frame in lost], colour=colour
    )


def _show(terminal: Terminal, facts: dict[str, Any]) -> None:
    rows = []
    for name, found in facts["classes"].items():
        means = [f"{mean(found[key]):.4f}" for key in ("scales", "relative_moves")]
        ends = [" ".join(map(str, found[key])) for key in ("tolerates_most", "tolerates_least")]
        rows.append([name, str(found["images"]), *means, *ends])
    columns = ["class", "images", "scale", "move", "tolerates most", "tolerates least"]
    title = f"average scale, relative move, operators by number; identity: {facts['identity']}"
    terminal.result_table(title, columns, rows)
