"""gRPC: unary calls whose reply is the request, without a schema."""

from concurrent import futures

import grpc
import trips

METHOD = "/benchmark.Echo/Call"
REQUEST = bytes(64)


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == METHOD:
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        return None


def serve(target):
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Echo()])
    server.add_insecure_port(target)
    server.start()
    server.wait_for_termination()


def ask(target, seconds):
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary(METHOD)
        call(REQUEST, timeout=10, wait_for_ready=True)
        trips.measure(seconds, lambda: call(REQUEST, timeout=5))


role, address, port, seconds = trips.arguments()
target = f"{address}:{port}"
serve(target) if role == "serve" else ask(target, seconds)
