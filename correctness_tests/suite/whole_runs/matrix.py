"""Every fault in both kinds of session, and clean sessions; each is kept as it ends, so that a stop loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from correctness_tests.suite.planting import Fault
from correctness_tests.suite.whole_runs.judge import Judged, judge_clean, judge_cpu, judge_rehearsal
from correctness_tests.suite.whole_runs.session import CPU, REHEARSAL, Session, run_session

Run = Callable[[str, Fault | None, Sequence[str]], Session]
KINDS = (CPU, REHEARSAL)


@dataclass(frozen=True)
class Row:
    """One session of the matrix, judged: the fault's name or ``no fault, run N``, and the kind of session."""

    name: str
    kind: str
    judged: Judged
    session: Session


@dataclass
class Kept:
    """The sessions that were run so far, by name and kind, in a file of JSON lines; in memory alone without a file."""

    path: Path | None = None
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Kept:
        """What lies there; nothing if there is no such file yet."""
        kept = cls(path)
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                data = json.loads(line)
                kept.sessions[data["name"], data["kind"]] = Session.of_data(data)
        return kept

    def keep(self, name: str, kind: str, session: Session) -> None:
        """Add one, on disk at once."""
        self.sessions[name, kind] = session
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "kind": kind, **session.as_data()}) + "\n")


@dataclass(frozen=True)
class Matrix:
    """What to try: the faults, how many clean runs, which kinds of session, and the options of the cpu sessions."""

    faults: Sequence[Fault]
    clean: int = 0
    kinds: Sequence[str] = KINDS
    options: tuple[str, ...] = ()

    def rows(self, kept: Kept, run: Run = run_session) -> Iterator[Row]:
        """Each session as it ends; one that was kept is judged again and not run."""
        for kind in self.kinds:
            for fault in self.faults:
                session = self._session(kept, run, fault.name, kind, fault)
                judge = judge_cpu if kind == CPU else judge_rehearsal
                yield Row(fault.name, kind, judge(fault, session), session)
        for number in range(1, self.clean + 1):
            for kind in self.kinds:
                name = f"no fault, run {number}"
                session = self._session(kept, run, name, kind, None)
                yield Row(name, kind, judge_clean(session), session)

    def _session(self, kept: Kept, run: Run, name: str, kind: str, fault: Fault | None) -> Session:
        if (name, kind) not in kept.sessions:
            kept.keep(name, kind, run(kind, fault, self.options if kind == CPU else ()))
        return kept.sessions[name, kind]
