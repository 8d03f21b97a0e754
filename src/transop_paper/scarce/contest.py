"""The contest of rows with unlabelled images: which rows with how many seeds, and its result."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from transop.artifacts import read_json
from transop_paper.scarce.results import compare_rows, summarise
from transop_paper.scarce.rows import ENTRY, find_rows

# For each data set, rows by number of seeds.
CONTESTS: dict[str, dict[int, str]] = {
    "mnist": {
        10: "poisson-joint,poisson,entry,entry-transport,entry-noise,entry-lines,entry-plain,"
        "fixmatch,mean-teacher",
        3: "entry-worst",  # four times as slow as the entry
    },
    "fashion": {
        10: "poisson-joint,poisson,entry,entry-transport,entry-worst,entry-noise,entry-lines,"
        "entry-elastic,entry-network,entry-no-graph,fixmatch,mean-teacher,self-training",
    },
    "yale": {3: "poisson-joint,fixmatch,entry,entry-plain"},
}


def collect_contest(folder: Path, dataset: str) -> dict[str, Any]:
    """Read every result in a folder, however many seeds each row has."""
    results = [read_json(file) for file in sorted((folder / "results").glob("*.json"))]
    return {
        "rows": [
            asdict(one) for one in summarise(find_rows(["rivals", "ablations"], dataset), results)
        ],
        "differences": [asdict(one) for one in compare_rows(results, ENTRY)],
    }
