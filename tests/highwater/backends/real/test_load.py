"""How much other work slows this machine, from the kernel's counters."""

from pathlib import Path

from highwater.backends.real.load import CpuTime

MS = 1_000_000


def counters(folder: Path, **threads: str) -> Path:
    """The folder, with a schedstat of this text for each thread."""
    for name, text in threads.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "schedstat").write_text(text)
    return folder


def test_time_spent_waiting_for_a_core_slows_the_work(tmp_path: Path) -> None:
    before = CpuTime.now(counters(tmp_path, t1=f"{5 * MS} {9 * MS} 1", t2="0 0 0"))
    after = CpuTime.now(counters(tmp_path, t1=f"{15 * MS} {29 * MS} 7", t2=f"{10 * MS} {20 * MS} 2", t3=f"{20 * MS} 0 1"))

    assert after.slowed_since(before) == 2.0


def test_machine_with_a_core_for_each_thread_is_not_slowed(tmp_path: Path) -> None:
    before = CpuTime.now(counters(tmp_path, t1=f"{5 * MS} {9 * MS} 1", gone=f"{5 * MS} {9 * MS} 1"))
    (tmp_path / "gone" / "schedstat").unlink()
    after = CpuTime.now(counters(tmp_path, t1=f"{15 * MS} {9 * MS} 2"))

    assert after.slowed_since(before) == 1.0


def test_load_is_unknown_without_the_counters_of_the_kernel(tmp_path: Path) -> None:
    assert CpuTime.now(tmp_path).slowed_since(CpuTime.now(tmp_path)) is None


def test_counters_of_this_process_can_be_read() -> None:
    assert CpuTime.now().threads
