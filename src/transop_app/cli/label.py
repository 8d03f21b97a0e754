"""``transop label``: from a folder with a few labelled images to labels for all of them."""

from __future__ import annotations

import csv
import io
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop.errors import UserError
from transop_app.cli import options
from transop_app.cli.runs import listed, move_aside
from transop_app.cli.terminal import Interrupted, Terminal

if TYPE_CHECKING:
    from transop.model import ManifoldAutoencoder
    from transop.semi_supervised import ExpectedAccuracy, FewLabelClassifier, GraphLabels

_LABELS, _CLASSIFIER, _MODEL = "labels.csv", "classifier", "model"  # what --out gets
_MINUTES = 5.0


def label(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="A subfolder for each class, and one called 'unlabelled'."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Take a trained model; it must not know labels of these images.",
            callback=options.find_run,
            show_default="one is trained",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="How long training a model may take.", show_default=f"{_MINUTES:g}"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of results; labels/FOLDER if left out.", show_default=False),
    ] = None,
    folds: Annotated[
        int, typer.Option(help="Parts of the labels that are hidden in turn; 0 measures nothing.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Label anew; earlier results are kept elsewhere.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Label a folder of images from a few labels, and learn a classifier for new images.

    Put a few images of each class into a folder of its own and all others into 'unlabelled'.
    Both results come with their expected accuracy, measured on labels that were hidden.
    """
    if model is not None and minutes is not None:
        raise UserError(
            "--minutes is the time to train a model; leave it out, or leave out --model"
        )
    terminal: Terminal = ctx.obj
    place = out or Path("labels") / (Path(source).stem or "folder")
    _claim(place, model, force=force)

    from transop.semi_supervised import learn_from_few_labels

    if model is None:
        terminal.notice(f"training a model without labels: {minutes or _MINUTES:g} minutes at most")
    try:
        found = learn_from_few_labels(
            source,
            None if model is None else _open_model(terminal, model),
            minutes=_MINUTES if minutes is None else minutes,
            out=None if model is not None else place / _MODEL,
            n_folds=folds,
            seed=seed,
            progress=terminal.progress,
        )
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(source, model, place)) from None
    facts = _save(found, place)
    if as_json:
        terminal.result_json(facts)
    else:
        _show(terminal, found, facts)
    terminal.notice(
        f"next: move images that you can name yourself, the least probable of {place / _LABELS} "
        "first, into the folders of their classes, and label again"
    )


def _claim(place: Path, model: Path | None, *, force: bool) -> None:
    """Make sure that nothing is overwritten; ``force`` moves earlier results out of the way."""
    names = listed(place)
    if not names or (names == {_MODEL} and model is not None and model.parent == place):
        return
    if not names <= {_LABELS, _CLASSIFIER, _MODEL}:
        raise UserError(
            f"--out '{place}' holds files that are not of 'transop label'; choose a new folder"
        )
    if not force:
        raise UserError(
            f"--out '{place}' holds results already; label anew with --force, or choose another "
            "folder"
        )
    if model is not None and model.resolve().is_relative_to(place.resolve()):
        raise UserError(f"--force would move the model '{model}' away; choose another --out")
    move_aside(place)


def _open_model(terminal: Terminal, path: Path) -> ManifoldAutoencoder:
    """Open a run's model; tell if its latents may know labels."""
    from transop.run import Run

    run = Run.open(path)
    model = run.require_phase("autoencoder")
    if run.folder.config_file.exists() and run.settings.pairs.strategy.endswith("class"):
        terminal.notice(
            f"'{path}' has paired images by their classes: if they were among these images, the "
            "expected accuracies are too high"
        )
    return model


def _how_to_go_on(source: str, model: Path | None, place: Path) -> str:
    trained = place / _MODEL
    if model is None and (trained / "model.safetensors").exists():
        words = ["transop", "label", source, "--model", str(trained), "--out", str(place)]
        return f"stopped; the model is kept, go on with: {shlex.join(words)}"
    return "stopped; no image was labelled"


def _save(found: FewLabelClassifier, place: Path) -> dict[str, Any]:
    """Write the labels and the classifier, and say what they are."""
    from transop.artifacts import write_atomically

    graph = found.graph
    assert graph is not None
    write_atomically(place / _LABELS, _table(graph, found.class_names))
    found.save_pretrained(place / _CLASSIFIER)
    return {
        "labels": str(place / _LABELS),
        "classifier": str(place / _CLASSIFIER),
        "images": {"labelled": found.n_labelled, "unlabelled": found.n_unlabelled},
        "expected_accuracy": {
            "labels": _as_dict(graph.expected_accuracy),
            "classifier": _as_dict(found.expected_accuracy),
        },
        "classes": {
            name: {
                "labelled": int((graph.given == number).sum()),
                "unlabelled": int((graph.labels[graph.given < 0] == number).sum()),
            }
            for number, name in enumerate(found.class_names)
        },
    }


def _as_dict(expected: ExpectedAccuracy | None) -> dict[str, float] | None:
    return None if expected is None else vars(expected)


def _table(graph: GraphLabels, names: tuple[str, ...]) -> bytes:
    """List file, class and probability of every unlabelled image, as CSV."""
    assert graph.files is not None
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "class", "probability"])
    for row in (graph.given < 0).nonzero()[0]:
        found = graph.labels[row]
        probability = f"{graph.probabilities[row, found]:.4f}"
        writer.writerow([graph.files[row], names[found], probability])
    return text.getvalue().encode(errors="surrogateescape")


def _show(terminal: Terminal, found: FewLabelClassifier, facts: dict[str, Any]) -> None:
    rows = [[name, *map(str, counts.values())] for name, counts in facts["classes"].items()]
    terminal.result_table(None, ["class", "labelled", "given to unlabelled images"], rows)
    assert found.graph is not None
    for what, expected, name in (
        ("labels of the unlabelled images", found.graph.expected_accuracy, "labels"),
        ("classifier for new images", found.expected_accuracy, "classifier"),
    ):
        accuracy = "not measured" if expected is None else str(expected)
        terminal.result(f"{facts[name]}: {what}, expected accuracy {accuracy}")
