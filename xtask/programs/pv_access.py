"""EPICS PV Access by p4p: the client reads a value of the server."""

import threading

import trips


def serve():
    from p4p.nt import NTScalar
    from p4p.server import Server
    from p4p.server.thread import SharedPV

    value = SharedPV(nt=NTScalar("d"), initial=1.5)
    with Server(providers=[{"BENCH:value": value}]):
        threading.Event().wait()


def ask(seconds):
    from p4p.client.thread import Context

    with Context("pva") as context:
        context.get("BENCH:value", timeout=10)
        trips.measure(seconds, lambda: context.get("BENCH:value", timeout=5))


role, _, _, seconds = trips.arguments()
serve() if role == "serve" else ask(seconds)
