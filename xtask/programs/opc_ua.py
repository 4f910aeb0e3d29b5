"""OPC UA by asyncua: the client reads a variable of the server."""

import asyncio

import trips
from asyncua import Client, Server

NAMESPACE = "urn:benchmark"


async def serve(url):
    server = Server()
    await server.init()
    server.set_endpoint(url)
    index = await server.register_namespace(NAMESPACE)
    device = await server.nodes.objects.add_object(index, "Device")
    await device.add_variable(index, "Value", 1.5)
    async with server:
        await asyncio.Event().wait()


async def ask(url, seconds):
    async with Client(url) as client:
        index = await client.get_namespace_index(NAMESPACE)
        value = await client.nodes.objects.get_child([f"{index}:Device", f"{index}:Value"])
        await trips.measure_async(seconds, value.read_value)


role, address, port, seconds = trips.arguments()
url = f"opc.tcp://{address}:{port}/benchmark/"
asyncio.run(serve(url) if role == "serve" else ask(url, seconds))
