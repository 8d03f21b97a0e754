"""What TensorBoard finds in a run folder, and that nobody writes there afterwards."""

import threading

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from transop.training.session import EventFile


def read(folder, name):
    found = EventAccumulator(str(folder))
    found.Reload()
    return {event.step: event.value for event in found.Scalars(name)}


def test_tensorboard_reads_every_number_at_its_step(tmp_path):
    events = EventFile(tmp_path / "phase")
    for step in range(3):
        events.add(step, {"loss": step / 4, "rate": 7})
    assert read(tmp_path / "phase", "loss") == {0: 0.0, 1: 0.25, 2: 0.5}
    assert read(tmp_path / "phase", "rate") == {0: 7.0, 1: 7.0, 2: 7.0}


def test_a_resumed_phase_replaces_what_is_computed_again(tmp_path):
    first = EventFile(tmp_path)
    for step in range(1, 6):
        first.add(step, {"loss": 1.0})
    EventFile(tmp_path, purge_step=4).add(4, {"loss": 2.0})
    assert read(tmp_path, "loss") == {1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0}


def test_a_session_that_goes_back_keeps_the_step_it_goes_back_to(make_session):
    for loss, steps in ((1.0, (2, 4, 6)), (2.0, (6,))):
        session = make_session()
        session.rewind("toy", 4)
        for step in steps:
            session.write("toy", step, loss=loss)
    folder = session.folder.path / "tensorboard" / "toy"
    assert read(folder, "toy/loss") == {2: 1.0, 4: 1.0, 6: 2.0}


def test_training_leaves_no_thread_that_could_still_write(make_session):
    before = set(threading.enumerate())
    make_session().write("toy", 1, loss=0.5)
    assert set(threading.enumerate()) <= before
