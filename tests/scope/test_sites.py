"""Sites are numbered for whoever asks: threads, what interrupts them, and forked children."""

import threading

from programs import alone

from drivetrain import scope
from drivetrain.core.errors import InvalidInput
from drivetrain.scope import sites
from drivetrain.scope.sites import Site, SiteTable


def test_what_interrupts_a_thread_that_names_a_site_can_name_another(tmp_path, monkeypatch):
    """As handlers of signals and finalizers do."""
    names, write = SiteTable(), sites._append
    said = []

    def interrupted(file, entries):
        said.extend(entries)
        if len(said) == 1:
            names.number(Site("of a handler"))
        write(file, entries)

    monkeypatch.setattr(sites, "_append", interrupted)
    names.write_to(tmp_path / "sites")
    thread = threading.Thread(target=names.number, args=[Site("mine")], daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert said == [(0, Site("mine")), (1, Site("of a handler"))]
    assert [names.number(site) for _, site in said] == [0, 1]


def test_a_child_that_is_forked_while_another_thread_names_a_site_can_name_its_own():
    text = """
import os, signal, threading
from drivetrain import scope
from drivetrain.scope.sites import table

thread = threading.Thread(target=table._lock.acquire)
thread.start()
thread.join()
if (child := os.fork()) == 0:
    signal.alarm(5)
    scope.operation("of the child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    alone(text)


def test_of_sessions_that_threads_begin_at_once_one_records_and_the_others_are_refused(tmp_path):
    at_once, over, said = threading.Barrier(4), threading.Barrier(4), {}

    def begin(name):
        at_once.wait()
        try:
            with scope.session(tmp_path / name):
                with scope.operation(name):
                    pass
                over.wait()
            said[name] = {row.operation for row in scope.load(tmp_path / name).breakdown()}
        except InvalidInput as error:
            said[name] = str(error)
            over.wait()

    threads = [threading.Thread(target=begin, args=[f"of {number}"]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (name,) = [name for name, what in said.items() if name in what]
    assert not (said.keys() - {name}) & said[name]
    refused = [what for other, what in said.items() if other != name]
    assert all("this process records already, into" in what for what in refused)


def test_a_child_that_is_forked_while_a_session_begins_or_ends_names_nothing_in_its_parents_table(tmp_path):
    text = """
import os, pathlib, signal, sys
from drivetrain import scope
from drivetrain.scope import process
from drivetrain.scope.calibration.yardstick import Yardstick

def forking(original):  # as another thread may
    def forks(*arguments):
        found = original(*arguments)
        if os.fork() == 0:
            signal.alarm(20)
            while b"mine" not in b"".join(path.read_bytes() for path in pathlib.Path(sys.argv[1]).glob("*sites*")):
                pass
            with scope.operation("the child's"):
                os._exit(0)
        return found
    return forks

Yardstick.__init__ = forking(Yardstick.__init__)
process._native = type("Native", (), {**vars(process._native), "stop": staticmethod(forking(process._native.stop))})
with scope.session(sys.argv[1]), scope.operation("mine"):
    pass
for _ in range(2):
    assert os.wait()[1] == 0
"""
    alone(text, tmp_path / "run.scope")
    trace = scope.load(tmp_path / "run.scope").trace
    assert {site.operation for site in trace.sites} & {"mine", "the child's"} == {"mine"}
