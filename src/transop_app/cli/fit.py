"""``transop fit``: train on a folder of images within a number of minutes."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transop_app.cli import options
from transop_app.cli.runs import check_resumable, claim_folder
from transop_app.cli.terminal import Terminal
from transop_app.cli.train import show_summary

if TYPE_CHECKING:
    from transop.artifacts import RunFolder
    from transop.data import ImageDataset
    from transop.run import Run
    from transop.training import FitPlan

_GOOD, _FAIR = 0.9, 0.75  # share of the images' variance that reconstructions explain


def fit(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Images; subfolders are classes. Also a .zip, .npz or .npy."
        ),
    ],
    minutes: Annotated[float, typer.Option(help="How long it may take.")] = 15.0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/FOLDER if left out.", show_default=False)
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Print the plan as TOML for 'transop train'; stop.")
    ] = False,
    seed: options.Seed = None,
    device: options.Device = None,
    resume: options.Resume = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Train on your own images: every setting is chosen for them and for the time you have.

    The plan is printed first. Labels (subfolders) are used if there are any. A run that was stopped
    goes on with --resume, as it was planned and without a clock.
    """
    from transop.artifacts import RunFolder
    from transop.training import make_plan, train_in_time

    terminal: Terminal = ctx.obj
    begun = time.monotonic()
    name = Path(os.path.abspath(source)).stem or "fit"  # noqa: PTH100  (".." has no name)
    folder = RunFolder(out or Path("runs") / name)
    if resume:
        check_resumable(folder, force=force)
        if folder.config_file.exists():
            _go_on(ctx, folder)
            return
    if not plan_only:
        claim_folder(folder, force=force)
    plan, images = make_plan(
        source, minutes, seed=seed or 0, device=device or "auto", progress=terminal.progress
    )
    if plan_only:
        terminal.result(plan.settings.to_toml().rstrip())
        return
    _show_plan(terminal, plan)
    with terminal.resumable(_remedy(ctx, folder)):
        train_in_time(
            plan,
            images,
            folder,
            begun,
            named=True,
            progress=terminal.progress,
            announce=terminal.notice,
        )
    _conclude(ctx, folder.path, images)
    taken = (time.monotonic() - begun) / 60
    terminal.notice(f"done in {taken:.1f} of {minutes:g} minutes")


def _go_on(ctx: typer.Context, folder: RunFolder) -> None:
    """Continue a run that was stopped, and conclude it as any other."""
    from transop.training import fit as fit_again

    terminal: Terminal = ctx.obj
    source = ctx.params["source"]  # must hold the very images of the run
    given = {name: ctx.params[name] for name in ("minutes", "seed", "device")}
    with terminal.resumable(_remedy(ctx, folder)):
        fit_again(source, out=folder.path, resume=True, progress=terminal.progress, **given)
    _conclude(ctx, folder.path, source)


def _remedy(ctx: typer.Context, folder: RunFolder) -> str:
    source, place = (shlex.quote(str(path)) for path in (ctx.params["source"], folder.path))
    return f"stopped; continue with: transop fit {source} --out {place} --resume"


def _show_plan(terminal: Terminal, plan: FitPlan) -> None:
    for reason in plan.reasons:
        terminal.notice(f"  {reason}")
    terminal.notice(f"  {plan.settings.operators.n_operators} operators")
    for name, seconds in plan.seconds.items():
        terminal.notice(f"  {name.replace('_', ' '):20s} about {seconds:5.0f} s")
    terminal.notice(f"plan: about {plan.total:.1f} of {plan.minutes:g} minutes")


def _conclude(ctx: typer.Context, path: Path, data: ImageDataset | str) -> None:
    """Draw, print results, say in plain words how good they are, and suggest what to do next."""
    from transop.run import Run
    from transop_app.cli.showcase import draw_showcase
    from transop_app.report import write_report

    terminal: Terminal = ctx.obj
    run = Run.open(path, data=data, progress=terminal.progress)
    draw_showcase(run.model, run.dataset, run.folder.figures)
    show_summary(terminal, run.folder, as_json=ctx.params["as_json"])
    for sentence in quality(run, ctx.params["minutes"]):
        terminal.notice(sentence)
    terminal.notice(f"report: {write_report(path)}")
    terminal.notice("try next:")
    place, source = shlex.quote(str(path)), shlex.quote(ctx.params["source"])
    for command in (
        f"transop augment {place} {source} augmented -n 3",
        f"transop explore {place}",
        f"transop path {place} A.png B.png",
    ):
        terminal.notice(f"  {command}")


def quality(run: Run, minutes: float) -> list[str]:
    """Say in plain words how good the result is, and what more time would buy."""
    import numpy as np

    from transop.data import spread_out

    merged: dict[str, Any] = {}
    for facts in run.phases.values():
        merged |= facts
    # A single image has no variance.
    images, rows = run.dataset, run.held_out_rows
    rows = rows if len(rows) > 1 else np.arange(len(images))
    some = images.batch(spread_out(rows, 500))
    error = float(merged["test_mse"])
    explained = 1 - error / max(float((some - some.mean(0)).square().mean()), 1e-9)
    words = "good" if explained >= _GOOD else "soft" if explained >= _FAIR else "poor"
    sentences = [
        f"reconstruction: {words} ({explained:.0%} of the variance of held-out images, squared "
        f"error {error:.4f})"
    ]
    if "living" in merged:
        n_operators = run.model.operators.n_operators
        sentences.append(f"operators: {merged['living']} of {n_operators} are alive")
    sentences.append(_on_identity(merged, run))
    sentences.append(_on_more_time(run, minutes))
    return sentences


def _on_identity(merged: dict[str, Any], run: Run) -> str:
    if "kept_encoded" not in merged:
        return (
            "identity: nothing tells these images apart, so default moves go half the way to the "
            f"nearest image (scale {run.model.prior_scale:.3g})"
        )
    return (
        f"identity ({merged['identity']}): {merged['kept_encoded']:.0%} of default moves keep it "
        f"at a mean length of {merged['move_length']:.2f}; one fixed scale of that length keeps "
        f"{merged['kept_fixed']:.0%}"
    )


def _on_more_time(run: Run, minutes: float) -> str:
    settings = run.settings.autoencoder
    if settings.width < 32:
        return (
            f"more time: the network has width {settings.width} and sees each image "
            f"{settings.epochs:.0f} times; --minutes {4 * minutes:g} affords twice the width, "
            "that is sharper images"
        )
    if settings.epochs < 40:
        return (
            f"more time: the network sees each image {settings.epochs:.0f} times; "
            f"--minutes {2 * minutes:g} doubles that, for sharper images"
        )
    return "more time would change little: more images would help more"
