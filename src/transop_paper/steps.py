"""The measurements of the docs: what each runs, and where its result is found.

To add one, add a step to ``STEPS``. To show it in the docs, add a table to
``transop_paper.numbers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transop_paper.collecting import (
    Collect,
    read_figure,
    read_figure_of_runs,
    read_figures,
    read_file,
    read_files,
    read_runs,
)
from transop_paper.scarce.contest import CONTESTS, collect_contest

GIVEN = ("celeba", "fruits", "yale")  # data that some steps need and the user may have


@dataclass(frozen=True)
class Step:
    """One measurement.

    In commands, ``{work}`` is the folder of runs and ``{celeba}``, ``{fruits}``, ``{yale}`` are
    data that the user must have; ``> FILE`` keeps what a command prints.
    """

    name: str  # of its JSON file
    about: str  # what it measures, in a few words
    commands: tuple[str, ...]  # as the docs show them
    quick: tuple[str, ...]  # the same in seconds, to see that it works; empty: tests do that
    collect: Collect
    after: tuple[str, ...] = ()  # steps whose runs it uses
    leaves: tuple[str, ...] = ()  # folders below {work} that later steps use


def _seeds(template: str, seeds: Sequence[int]) -> tuple[str, ...]:
    return tuple(template.replace("SEED", str(seed)) for seed in seeds)


_TINY = (
    "--set data.limit=400 --set autoencoder.width=4 --set autoencoder.epochs=2 "
    "--set pairs.strategy=pixel --set operators.epochs=2 --set fine_tuning.epochs=0.5 "
    "--set classifier.epochs=2 --set coefficient_encoder.epochs=1 "
    "--set coefficient_encoder.distil_samples=1000"
)
_TRAIN = "transop train {recipe} --seed SEED --out {{work}}/{name}-SEED"
_EXTRAPOLATE = (
    "python examples/measure_extrapolation.py {{work}}/{name}-SEED --residual 0.12 "
    "--sparsity-weight 0.01 --pairs-per-class 1000 {more}"
    "--json {{work}}/extrapolation/{name}-SEED.json"
)
_TABLE1 = "transop paper table1 --run {{work}}/{name}-0 --out {{work}}/table1-{name}"
# Rows of Table 1 that are made together, and what they are.
_TABLES = {
    "table1": (
        "ten labels per class",
        "none,randaugment-paper,randaugment,elastic-paper,elastic,transport-prior,"
        "transport-encoder,transport-guarded,transport-graph,transport-graph-guarded",
    ),
    "few-labels": (
        "ranges and guard from the same ten labels per class",
        "transport-100,transport-100-elastic,transport-100-guarded,transport-100-guarded-elastic",
    ),
}
# Rows of Table 1 that beat fixed augmentations: random directions, as far, are their control. It
# is compared seed by seed, so half of the seeds are enough.
_CONTROLLED = {
    "mnist": ("guarded", "100-guarded-elastic"),
    "fashion": ("encoder", "guarded", "graph-guarded", "100-elastic"),
}
_ON_CELEBA = "--set data.source={celeba} --set data.crop=celeba"
_PATHS = ("operator-paths", "all-operators", "closed-paths", "sparse-dense")
_FACE_FIGURES = (*_PATHS, "magnitudes", "training-curves", "inference-time")
# All but those that are made for digits.
_GARMENT_FIGURES = (
    *_FACE_FIGURES,
    "path-strips",
    "extrapolation",
    "embedding",
    "scale-map",
    "augmentations",
    "pair-neighbours",
    "pair-eigenvalues",
    "pair-paths",
    "operator-difference",
)
_ATTRIBUTES = "transop paper attributes --run {{work}}/{name}-0"
_KEPT = "python benchmarks/kept_identity.py {{work}}/kept-{name} {runs}"


def _ground_truth(name: str, *options: str) -> Step:
    """Compare operators with a transformation whose angles are known; one command per options."""
    command = "python benchmarks/ground_truth_study.py {work}/ground-truth"
    return Step(
        f"ground-truth-{name}",
        f"operators against known angles: {name}",
        tuple(f"{command} {more} --set {name}" for more in options),
        (),
        read_file(f"ground-truth/ground-truth-{name}.json"),
    )


def _contest_step(name: str, dataset: str, more: str = "") -> Step:
    """Compare rows with unlabelled images on one data set."""
    command = f"transop paper table1 --run {{work}}/{name}-0 --out {{work}}/contest-{name}{more}"
    return Step(
        f"contest-{name}",
        f"few labels and many unlabelled images: {dataset}",
        tuple(f"{command} --seeds {n} --rows {rows}" for n, rows in CONTESTS[name].items()),
        (),
        lambda work: collect_contest(work / f"contest-{name}", dataset),
        after=(f"recipe-{name}",),
    )


def _recipe_steps(
    name: str, recipe: str, figures: Sequence[str], *, quick: bool, judge: str = ""
) -> list[Step]:
    """Train a recipe with three seeds and measure what the docs say about its runs."""
    train = _TRAIN.format(recipe=recipe, name=name)
    tiny = _seeds(_TRAIN.format(recipe="demo", name=name) + f" {_TINY}", range(2))
    kept = _KEPT.format(name=name, runs=" ".join(_seeds(f"{{work}}/{name}-SEED", range(3))))
    few = _KEPT.format(name=name, runs=" ".join(_seeds(f"{{work}}/{name}-SEED", range(2))))
    along = _EXTRAPOLATE.format(name=name, more=judge)
    runs, labels = f"recipe-{name}", f"kept-identity-{name}"
    tiny_table = "--scale quick --rows none,transport-encoder --set n_steps=20"
    moved = [f"{kind}-{row}" for row in _CONTROLLED[name] for kind in ("transport", "noise")]
    steps = [
        Step(
            runs,
            f"{recipe}, three seeds: time, error, operators, kept identity",
            _seeds(train, range(3)),
            tiny,
            read_runs(name),
            leaves=(f"{name}-0",),
        ),
        Step(
            labels,
            f"{recipe}: identity from labels and from the neighbour graph",
            (kept,),
            (f"{few} --images 100 --epochs 1",),
            read_file(f"kept-{name}/kept.json"),
            after=(runs,),
            leaves=(f"kept-{name}",),
        ),
        Step(
            f"extrapolation-{name}",
            f"{recipe}: accuracy along paths and along the straight-line control",
            _seeds(along, range(3)),
            _seeds(along.replace("class 1000", "class 10"), range(2)),
            read_files(f"extrapolation/{name}-*.json"),
            after=(runs, labels),
        ),
        *(
            Step(
                f"{group}-{name}",
                f"{recipe}: {about}, ten seeds",
                (f"{_TABLE1.format(name=name)} --rows {rows}",),
                (f"{_TABLE1.format(name=name)} {tiny_table}",) if group == "table1" else (),
                read_file(f"table1-{name}/table1.json"),
                after=(runs,),
            )
            for group, (about, rows) in _TABLES.items()
        ),
        Step(
            f"controls-{name}",
            f"{recipe}: random directions, as far as learned moves, five seeds",
            (f"{_TABLE1.format(name=name)} --seeds 5 --rows {','.join(moved)}",),
            (),
            read_file(f"table1-{name}/table1.json"),
            after=(runs,),
        ),
        Step(
            f"rivals-{name}",
            f"{recipe}: accuracy along paths of all methods, three seeds",
            _seeds(f"transop paper extrapolation --run {{work}}/{name}-SEED", range(3)),
            (),
            read_figure_of_runs(
                name, range(3), "extrapolation", ("times", "accuracy", "half_width")
            ),
            after=(runs,),
        ),
        Step(
            f"figures-{name}",
            f"{recipe}: the figures of the paper",
            tuple(f"transop paper {figure} --run {{work}}/{name}-0" for figure in figures),
            (f"transop paper magnitudes --run {{work}}/{name}-0 --scale quick",),
            read_figures(f"{name}-0"),
            after=(runs,),
        ),
    ]
    if quick:
        return steps
    return [replace(step, quick=()) for step in steps]


def _longer_step() -> Step:
    """Compare mnist-cpu with the training of version 0.1, at equal residuals and shares covered.

    Seed 0 is left out: settings of fine-tuning were chosen on its test pairs.
    """
    train = _TRAIN.format(recipe="mnist-cpu", name="longer") + (
        " --set autoencoder.epochs=60 --set autoencoder.learning_rate=2e-3 "
        "--set runtime.precision=32-true"
    )
    ends = (("residual", 0.12), ("covered", 0.8))
    measure = [
        f"python examples/measure_extrapolation.py {{work}}/{name}-SEED --{how} {value} "
        "--sparsity-weight 0.01 --pairs-per-class 1000 --classifier {work}/longer-SEED "
        f"--json {{work}}/longer/{name}-{how}-SEED.json"
        for name in ("mnist", "longer")
        for how, value in ends
    ]
    commands = [line for template in (train, *measure) for line in _seeds(template, (1, 2))]

    def collect(work: Path) -> dict[str, Any]:
        return {
            name: {
                **read_runs(name, (1, 2))(work),
                **{how: read_files(f"longer/{name}-{how}-*.json")(work)["runs"] for how, _ in ends},
            }
            for name in ("mnist", "longer")
        }

    about = "mnist-cpu against twice the training in single precision, as in version 0.1"
    return _full("longer-mnist", about, commands, collect, "recipe-mnist")


def _full(name: str, about: str, run: str | Sequence[str], collect: Collect, *after: str) -> Step:
    """Make a step that has no quick version."""
    commands = (run,) if isinstance(run, str) else tuple(run)
    return Step(name, about, commands, (), collect, after=after)


def _read_attributes(name: str) -> Collect:
    return read_figure(f"{name}-0", "attributes", ("n_starts", "recognised", "mistaken"))


def _on_celeba(name: str, about: str, command: str | Sequence[str], collect: Collect) -> Step:
    """Measure something on the runs of celeba-cpu."""
    return _full(f"{name}-celeba", f"celeba-cpu: {about}", command, collect, "recipe-celeba")


STEPS: tuple[Step, ...] = (
    *_recipe_steps("mnist", "mnist-cpu", ("all",), quick=True),
    # Its own classifier reads latents; that of the labelled encoder looks at images.
    *_recipe_steps(
        "fashion",
        "fashion-mnist-cpu",
        _GARMENT_FIGURES,
        quick=False,
        judge="--classifier {work}/kept-fashion/fashion-SEED/labels ",
    ),
    _longer_step(),
    _contest_step("mnist", "mnist"),
    _contest_step("fashion", "fashion-mnist"),
    Step(
        "recipe-yale",
        "a small model of Yale B's faces, without labels",
        (
            "transop train demo --seed 0 --set data.source={yale} --set data.image_size=32 "
            "--set identity.source=graph --out {work}/yale-0",
        ),
        (),
        read_runs("yale"),
        leaves=("yale-0",),
    ),
    _contest_step("yale", "yaleb_64", " --set n_per_class=2"),
    Step(
        "expected-accuracy",
        "labels and classifiers from 100 labels: expected and true accuracy",
        ("python benchmarks/few_labels.py {work}/expected-accuracy.json --minutes 1 --steps 500",),
        (
            "python benchmarks/few_labels.py {work}/expected-accuracy.json --datasets digits "
            "--images 300 --seeds 0 --minutes 0.2 --folds 2 --steps 20",
        ),
        read_file("expected-accuracy.json"),
    ),
    Step(
        "operator-names-mnist",
        "mnist-cpu: what each operator changes",
        ("transop paper operator-names --run {work}/mnist-0",),
        ("transop paper operator-names --run {work}/mnist-0 --scale quick",),
        read_figure(
            "mnist-0",
            "operator-names",
            ("effect", "half_width", "slope", "agreement", "random", "sizes"),
        ),
        after=("recipe-mnist",),
    ),
    _full(
        "coverage-mnist",
        "mnist-cpu: images that augmentation misses, and labels it changes",
        "python benchmarks/coverage_study.py {work}/mnist-0 --json {work}/coverage-mnist.json "
        "--picture docs/pictures/coverage-mnist.png",
        read_file("coverage-mnist.json"),
        "recipe-mnist",
    ),
    _full(
        "robustness-mnist",
        "mnist-cpu: accuracy on changed digits",
        "transop paper robustness --run {work}/mnist-0",
        read_figure("mnist-0", "robustness", ("accuracy",)),  # by size, row, seed and change
        "recipe-mnist",
    ),
    Step(
        "inference",
        "coefficient inference against the paper's solvers, and 10 to 512 dimensions",
        ("transop bench inference --sweep --json > {work}/inference.json",),
        (
            "transop bench inference --sweep --scale quick --repeats 3 --json "
            "> {work}/inference.json",
        ),
        read_file("inference.json"),
    ),
    Step(
        "operator-training",
        "an epoch on operators against the authors' algorithm",
        ("transop bench train --json > {work}/train.json",),
        (
            "transop bench train --batches 1 --batch-size 20 --learning-steps 5 --json "
            "> {work}/train.json",
        ),
        read_file("train.json"),
    ),
    Step(
        "augmentation-speed",
        "images per second of every augmentation",
        ("transop bench augment --json > {work}/augment.json",),
        ("transop bench augment --batch-size 16 --trials 2 --json > {work}/augment.json",),
        read_file("augment.json"),
    ),
    _full(
        "training-loops",
        "whole training loops with every augmentation",
        "transop bench loop --steps 15 --rounds 5 --json > {work}/loop.json",
        read_file("loop.json"),
    ),
    Step(
        "faces",
        "drawn faces: error, operators, attributes, factors",
        ("transop train faces --out {work}/faces-0",),
        (),
        read_runs("faces"),
        leaves=("faces-0",),
    ),
    _full(
        "attributes-faces",
        "drawn faces: attributes along operators",
        _ATTRIBUTES.format(name="faces"),
        _read_attributes("faces"),
        "faces",
    ),
    _full(
        "figures-faces",
        "drawn faces: every figure of the paper",
        "transop paper all --run {work}/faces-0",
        read_figures("faces-0"),
        "faces",
    ),
    Step(
        "recipe-celeba",
        "celeba-cpu: time, error, operators, kept identity",
        _seeds(_TRAIN.format(recipe="celeba-cpu", name="celeba") + f" {_ON_CELEBA}", range(1)),
        (),
        read_runs("celeba"),
        leaves=("celeba-0",),
    ),
    _on_celeba(
        "kept-identity",
        "attributes kept, identity from attributes and from the neighbour graph",
        _KEPT.format(name="celeba", runs="{work}/celeba-0"),
        read_file("kept-celeba/kept.json"),
    ),
    _on_celeba(
        "attributes",
        "attributes along operators",
        _ATTRIBUTES.format(name="celeba"),
        _read_attributes("celeba"),
    ),
    _on_celeba(
        "kept-person",
        "is a moved face still the same person?",
        "python benchmarks/kept_person.py {work}/kept-person.json {work}/celeba-0 "
        "--identities {celeba}/identity_CelebA.txt",
        read_file("kept-person.json"),
    ),
    _on_celeba(
        "fidelity",
        "reconstructions with and without feature maps in the error",
        [
            f"transop baseline ae celeba-cpu {_ON_CELEBA} --out {{work}}/celeba-0/companions/ae",
            f"transop baseline ae celeba-cpu {_ON_CELEBA} --set beyond_paper.perceptual_weight=0 "
            "--out {work}/celeba-plain",
            "python benchmarks/fidelity.py {work}/fidelity.json {work}/celeba-0 "
            '{work}/celeba-0/companions/ae {work}/celeba-plain --names "with [PERCEPTUAL],without" '
            "--picture docs/pictures/celeba-reconstructions.png",
        ],
        read_file("fidelity.json"),
    ),
    _on_celeba(
        "figures",
        "the other figures of the paper",
        [f"transop paper {figure} --run {{work}}/celeba-0" for figure in _FACE_FIGURES],
        read_figures("celeba-0"),
    ),
    _full(
        "embeddings",
        "operators in the features of an image network",
        "python benchmarks/embeddings_study.py --fruits {fruits} --celeba {celeba} "
        "--first-seed 8 --cache {work}/embeddings --out {work}/embeddings.json",
        read_file("embeddings.json"),
    ),
    *(
        _ground_truth(
            name,
            f"--operators 1 --seeds 0 --rivals --data {data}",
            f"--operators 16 --best 1 --data {data}",
        )
        for name, data in (("turntable", "{fruits}"), ("yale", "{yale}"))
    ),
    _ground_truth("drawn", "--operators 1 16"),
    Step(
        "large-sets",
        "time and memory from 50,000 to 1,000,000 images",
        (
            "python benchmarks/large_sets.py --json {work}/large-sets.json "
            "--plot docs/pictures/large-sets.png",
        ),
        ("python benchmarks/large_sets.py --sizes 3000 6000 --json {work}/large-sets.json",),
        read_file("large-sets.json"),
    ),
    Step(
        "input-size",
        "agreement of neighbours by the size of images in the feature network",
        ("python benchmarks/input_size.py {work}/input-size.json",),
        ("python benchmarks/input_size.py {work}/input-size.json --images 200",),
        read_file("input-size.json"),
    ),
    Step(
        "graph-size",
        "time and memory of the neighbour graph's groups",
        ("python benchmarks/graph_size.py {work}/graph-size.json",),
        ("python benchmarks/graph_size.py {work}/graph-size.json 2000",),
        read_file("graph-size.json"),
    ),
    _full(
        "two-processes",
        "speed of several threads and processes",
        "python benchmarks/two_processes.py --json {work}/two-processes.json",
        read_file("two-processes.json"),
    ),
    _full(
        "kill-and-resume",
        "killed runs end with the same bits",
        "python benchmarks/kill_and_resume.py --kills 20 --epochs 2 --seed 2 "
        "--json {work}/kill-and-resume.json",
        read_file("kill-and-resume.json"),
    ),
    Step(
        "attack",
        "hostile inputs of six kinds",
        ("python benchmarks/attack.py --cases 3600 --seed 0 1 2 --out {work}/attack.json",),
        ("python benchmarks/attack.py --cases 30 --seed 0 --out {work}/attack.json",),
        read_file("attack.json"),
    ),
)
