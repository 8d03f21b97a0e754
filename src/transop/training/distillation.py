"""A latent stand-in for the classifier after the decoder, so that the encoder trains fast."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from transop.operators import sample_moves
from transop.training.loop import Loop
from transop.training.session import Session

PHASE = "distillation"
_WIDTH = 512
_STEPS_PER_SAMPLE = 1 / 20  # 60,000 samples: 3,000 steps of 500
_BATCH = 500
_RATE = 2e-3
_ASKED = 1000  # points decoded at once

Classify = Callable[[Float[Tensor, "b d"]], Float[Tensor, "b ..."]]


def distil(
    session: Session,
    classify: Classify,
    operators: Float[Tensor, "m d d"],
    latents: Float[Tensor, "n d"],
    *,
    outputs: tuple[int, ...],
    prior_scale: float,
    n_samples: int,
) -> tuple[nn.Module, float]:
    """Teach a small network the classifier's opinion of decoded latent points.

    Half the samples are training latents, half are training latents moved by coefficients drawn
    from the prior, so that the stand-in also knows the places the operators lead to.

    ``outputs`` is the shape of one point's logits: (classes,), or (attributes, 2). With the
    stand-in comes how often it names the same class on points it has not seen.
    """
    with session.seeded("weights", PHASE):
        student = nn.Sequential(
            nn.Linear(latents.shape[1], _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, prod(outputs)),
            nn.Unflatten(1, outputs),
        ).to(session.device)
    optimiser = torch.optim.Adam(student.parameters(), _RATE, fused=True)
    n_steps = int(n_samples * _STEPS_PER_SAMPLE)
    choice = session.generator(PHASE, "choice")
    loop = Loop(
        session,
        PHASE,
        n_steps,
        modules={"student": student},
        optimisers={"student": optimiser},
        generators={"choice": choice},
        steps_per_epoch=max(1, n_samples // _BATCH),
        items_per_step=_BATCH,
        items="points",
        report_every=200,
    )
    share = slice(session.ranks.rank, None, session.ranks.n_ranks)
    points = opinions = None
    for step in loop:
        if points is None or opinions is None:  # asked for only if there is a step left to take
            points = _samples(session, operators, latents, prior_scale, n_samples, "samples")
            opinions = ask_classifier(session, classify, points, outputs)
        rows = torch.randint(len(points), (_BATCH,), generator=choice).to(points.device)[share]
        guess = log_softmax(student(points[rows]), -1)
        value = kl_div(guess, opinions[rows], reduction="batchmean", log_target=True)
        if not loop.check(value):
            continue
        loop.descend(optimiser, value, _RATE * (1 - step / n_steps))
        loop.record(loss=value.item())
    loop.save()  # the next loop may be interrupted: this one need not be run again
    student.eval()
    unseen = _samples(session, operators, latents, prior_scale, 2000, "unseen")
    with torch.no_grad():
        truth = ask_classifier(session, classify, unseen, outputs)
        same = student(unseen).argmax(-1) == truth.argmax(-1)
    return student, float(same.float().mean())


def _samples(
    session: Session,
    operators: Tensor,
    latents: Tensor,
    prior_scale: float,
    n_samples: int,
    purpose: str,
) -> Float[Tensor, "n d"]:
    """Draw training latents and move every second one."""
    generator = session.generator(PHASE, purpose)
    rows = torch.randint(len(latents), (n_samples,), generator=generator)
    points = latents[rows.to(latents.device)]
    moving = points[::2]
    scales = points.new_full((len(moving), len(operators)), prior_scale)
    with torch.no_grad():
        points[::2], _ = sample_moves(operators, moving, scales, generator=generator)
    return points


def ask_classifier(
    session: Session, classify: Classify, points: Float[Tensor, "n d"], outputs: tuple[int, ...]
) -> Float[Tensor, "n ..."]:
    """Ask the classifier about many points, in log-probabilities; devices share the work."""

    def ask(start: int) -> Tensor:
        with torch.no_grad():
            return log_softmax(classify(points[start : start + _ASKED]), -1).flatten(1)

    starts = range(0, len(points), _ASKED)
    answers = session.ranks.in_turns(starts, ask)
    answers = session.progress(answers, "asking the classifier", len(starts))
    return torch.cat(list(answers)).reshape(len(points), *outputs)
