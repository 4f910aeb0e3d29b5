# Echoes messages of many sizes over TLS: `serve ADDRESS PORT CERTIFICATE KEY`,
# `ask ADDRESS PORT AUTHORITY`.
import asyncio, os, ssl, struct, sys

async def receive(reader):
    (length,) = struct.unpack('!I', await reader.readexactly(4))
    return await reader.readexactly(length)

async def send(writer, message):
    writer.write(struct.pack('!I', len(message)) + message)
    await writer.drain()

async def serve(reader, writer):
    try:
        while message := await receive(reader):
            await send(writer, message)
    finally:
        writer.close()

async def talk(address, port, context):
    reader, writer = await asyncio.open_connection(address, port, ssl=context)
    assert writer.get_extra_info('cipher')
    for length in (1, 100, 16_384, 1, 200_000):
        message = os.urandom(length)
        received = asyncio.create_task(receive(reader))
        await send(writer, message)
        assert await received == message
    await send(writer, b'')
    # The server ends the session, and with it the connection.
    assert await reader.read() == b''
    writer.close()
    await writer.wait_closed()

async def unknown(address, port):
    # A client that does not trust the server ends the handshake.
    try:
        await asyncio.open_connection(address, port, ssl=ssl.create_default_context())
    except ssl.SSLCertVerificationError:
        return
    assert False, 'an unknown authority was trusted'

async def ask(address, port, authority):
    context = ssl.create_default_context(cafile=authority)
    await unknown(address, port)
    await asyncio.wait_for(asyncio.gather(*(talk(address, port, context) for _ in range(20))), 25)
    print('all came back')

async def main():
    role, address, port, *files = sys.argv[1:]
    if role == 'ask':
        return await ask(address, int(port), *files)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    server = await asyncio.start_server(serve, address, int(port), ssl=context)
    await server.serve_forever()

asyncio.run(main())
