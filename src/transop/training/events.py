"""Write numbers for TensorBoard, one record after the other, without a thread.

torch's writer hands records to a thread that opens its file again whenever it likes: also after a
temporary folder is gone, and with a traceback of its own when the disk is full.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transop.files import make_folder


class EventFile:
    """One file of TensorBoard's, open only while something is added to it."""

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        """Begin a file in a folder.

        Args:
            folder: of one phase; TensorBoard reads all files in it together.
            purge_step: makes TensorBoard forget what earlier files say from this step on.
        """
        make_folder(folder)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        events = _messages()
        records = [events.Event(wall_time=time.time(), file_version="brain.Event:2")]
        if purge_step is not None:
            start = events.SessionLog(status=events.SessionLog.START)
            records.append(events.Event(wall_time=time.time(), step=purge_step, session_log=start))
        self._append(records)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add the numbers of a step."""
        events = _messages()
        summary = events.Event(wall_time=time.time(), step=step)
        for name, value in values.items():
            summary.summary.value.add(tag=name, simple_value=float(value))
        self._append([summary])

    def _append(self, records: list[Any]) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("ab") as file:
            writer = RecordWriter(file)
            for record in records:
                writer.write(record.SerializeToString())


def _messages() -> Any:
    """Import TensorBoard's messages when they are needed: that takes half a second."""
    from tensorboard.compat.proto import event_pb2

    return event_pb2
