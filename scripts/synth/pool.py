"""Runs the jobs of a command two at a time, with a bar: each is a Yosys of its own, minutes of one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from synth.mapping import Job, is_mapped

WORKERS = 2
# Wide enough for the tables where there is no terminal to ask.
PLAIN_WIDTH = 160


def console(stderr: bool = False) -> Console:
    """Of standard output, or for progress of standard error."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH)


def run_all(jobs: list[Job], work: Callable[[Job], dict], sizes: dict[Job, int]) -> Iterator[tuple[Job, dict]]:
    """Results as they come, the largest jobs first so that none of them ends alone."""
    progress_to = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=progress_to) as progress, ThreadPoolExecutor(WORKERS) as pool:
        new = {job for job in jobs if not is_mapped(job)}
        task = progress.add_task("blocks", total=len(jobs))
        waiting = {pool.submit(work, job): job for job in sorted(jobs, key=lambda job: -sizes[job])}
        try:
            for done in as_completed(waiting):
                job = waiting[done]
                if job in new and not progress_to.is_terminal:
                    progress_to.print(f"mapped {job.label}")
                progress.update(task, advance=1, description=job.label)
                yield job, done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
