"""EPICS Channel Access: an IOC with one record, and a client of libca (pyepics) that reads it."""

import pathlib
import threading

import trips

DATABASE = pathlib.Path(__file__).with_name("channel_access.db")


def serve():
    from epicscorelibs.ioc import start_ioc

    start_ioc(dbs=[(str(DATABASE), "")])
    threading.Event().wait()


def ask(seconds):
    import epics

    value = epics.PV("BENCH:value")
    if not value.wait_for_connection(10):
        raise SystemExit("the record was not found within 10 s")

    def trip():
        if value.get(use_monitor=False, timeout=5) is None:
            raise SystemExit("no reply within 5 s")

    trips.measure(seconds, trip)


role, _, _, seconds = trips.arguments()
serve() if role == "serve" else ask(seconds)
