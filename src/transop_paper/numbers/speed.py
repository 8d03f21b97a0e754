"""Tables of time and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transop_paper.numbers.layout import Measurements, amount, from_file, percent, table

Measured = dict[str, Any]  # the content of a JSON file

_PHASES = ("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder")


def _large_sets(measured: Measured) -> str:
    sizes, growth = measured["results"], measured["growth"]
    names = list(sizes[0]["steps"])[1:]
    rows = []
    for name in names:
        seconds = [one["steps"][name]["cpu_seconds"] for one in sizes]
        overall, last = growth[name]["power_overall"], growth[name]["power_at_the_end"]
        words = f"n^{overall:.1f}, n^{last:.1f} at the end" if overall > 0.2 else "hardly any"
        shown = (f"{s:.1f}" if s < 10 else f"{s:.0f}" for s in seconds)
        rows.append([f"{name}: CPU seconds", *shown, words])
    recall = [f"{one['recall']:.3f}" for one in sizes]
    rows.append(["recall of the neighbours", *recall, ""])
    for words, steps in (("while training the autoencoder", names[:1]), ("of all steps", names)):
        peaks = [max(one["steps"][step]["peak_megabytes"] for step in steps) for one in sizes]
        per_image = f"{growth[steps[-1]]['bytes_per_image']:.0f} bytes per image"
        shown = (f"{peak:.0f}" for peak in peaks)
        rows.append([f"highest memory {words}, MB", *shown, per_image])
    return table(["images", *(f"{one['n_images']:,}" for one in sizes), "growth"], rows)


def _two_processes(measured: Measured) -> str:
    speed = measured["speed_up"]
    columns = (*_PHASES, "whole command")
    rows = [
        [name, *(f"{row[column]:.1f}" for column in columns)]
        for name, row in list(speed.items())[1:]
    ]
    head = [column.replace("fine_t", "fine-t").replace("_", " ") for column in columns]
    return table(["", *head], rows)


def inference(measured: Measured, place: int) -> str:
    """Compare all solvers at one size."""
    report = measured["sizes"][place]
    size = report["size"]
    rows = []
    for run in report["runs"]:
        seconds = sorted(run["seconds"])[len(run["seconds"]) // 2]
        worst = run["worst_pair"]
        rows.append(
            [
                run["solver"],
                amount(seconds),
                amount(run["ratio"]),
                f"{run['objective']:.5f}",
                "" if worst is None else f"{worst:.4f}",
                f"{run['non_zeros']:.1f}",
                percent(run["converged"]),
            ]
        )
    title = f"latent {size['dimension']}, {size['n_operators']} operators, {size['n_pairs']} pairs"
    columns = ["seconds", "times ours", "mean objective", "worst pair", "non-zeros", "converged"]
    return table([title, *columns], rows)


def inference_sweep(measured: Measured) -> str:
    """Compare ours with the reference from few to many dimensions."""
    found: dict[tuple[int, ...], list[Measured]] = {}
    for point in measured["sweep"]:
        size = point["size"]
        key = tuple(size[name] for name in ("dimension", "n_blocks", "n_operators", "n_pairs"))
        found.setdefault(key, []).append(point)
    rows = []
    for (dimension, blocks, operators, pairs), points in found.items():
        with_reference = [point for point in points if point["reference_seconds"] is not None]
        ratios = [point["reference_seconds"] / point["seconds"] for point in with_reference]
        rows.append(
            [
                str(dimension) if blocks == 1 else f"{dimension} in {blocks} blocks",
                str(operators),
                str(pairs),
                ", ".join(amount(1e3 * point["seconds"], 2) for point in points),
                ", ".join(amount(point["reference_seconds"]) for point in with_reference),
                ", ".join(amount(ratio) for ratio in ratios),
                ", ".join(f"{point['objective_ratio']:.3f}" for point in with_reference),
            ]
        )
    head = ["dimensions", "operators", "pairs", "ours near, far (ms)"]
    head += ["proximal-nesterov near, far (s)", "times ours", "our objective over its"]
    return table(head, rows)


def operator_training(measured: Measured) -> str:
    """Compare a step on the operators with one of the authors' algorithm."""
    size = measured["size"]
    rows = [
        [
            words,
            f"{amount(1e3 * run['seconds_per_batch'])} ms",
            f"{amount(run['epoch_seconds'])} s",
            f"{run['objective']:.5f}",
        ]
        for words, run in (
            ("ours", measured["ours"]),
            ("authors' algorithm", measured["authors"]),
        )
    ]
    batch, epoch = f"{size['batch_size']:,} pairs", f"{size['n_pairs']:,} pairs"
    return table(["", f"per batch of {batch}", f"per epoch of {epoch}", "objective"], rows)


def augmentation_speed(measured: Measured, side: int) -> str:
    """Compare augmentations of images of one size."""
    speeds = [one for one in measured["speeds"] if one["image_size"] == side]
    rows = [
        [
            one["name"],
            amount(one["images_per_second"]),
            f"{one['over_elastic']:.2f}",
            "" if one["peak_share"] is None else percent(one["peak_share"]),
        ]
        for one in speeds
    ]
    return table([f"{side} x {side}", "images/s", "/ elastic", "of peak"], rows)


def training_loops(measured: Measured, side: int) -> str:
    """Compare training loops on images of one size, in the main process and in workers."""
    found: dict[str, list[Measured]] = {}
    for one in measured["speeds"]:
        if one["image_size"] == side:
            found.setdefault(one["augmentation"], []).append(one)
    rows, head = [], [f"{side} x {side}"]
    for name, places in found.items():
        rows.append([name])
        for one in sorted(places, key=lambda one: int(one["workers"])):
            rows[-1] += [amount(one["images_per_second"]), percent(one["waiting"])]
            rows[-1].append(f"{one['over_elastic']:.2f}")
    for place in ("main", "workers")[: len(rows[0]) // 3]:
        head += [f"{place}: {column}" for column in ("images/s", "waiting", "time / elastic")]
    return table(head, rows)


SPEED: dict[str, Callable[[Measurements], str]] = {
    "large-sets": from_file("large-sets", _large_sets),
    "two-processes": from_file("two-processes", _two_processes),
    "inference-10": from_file("inference", inference, place=0),
    "inference-32": from_file("inference", inference, place=1),
    "inference-sweep": from_file("inference", inference_sweep),
    "operator-training": from_file("operator-training", operator_training),
    "augmentation-speed-28": from_file("augmentation-speed", augmentation_speed, side=28),
    "augmentation-speed-64": from_file("augmentation-speed", augmentation_speed, side=64),
    "training-loops-28": from_file("training-loops", training_loops, side=28),
    "training-loops-64": from_file("training-loops", training_loops, side=64),
}
