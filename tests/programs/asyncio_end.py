"""One end of an echo over asyncio, which waits by epoll: asyncio_end.py ADDRESS PORT [CONNECTIONS BYTES]."""

import asyncio
import os
import sys


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def serve(address, port):
    server = await asyncio.start_server(echo, address, port)
    async with server:
        await server.serve_forever()


async def ask(address, port, count):
    """Sends more than buffers hold while it reads what comes back."""
    reader, writer = await asyncio.open_connection(address, port)
    sent = os.urandom(count)
    writer.write(sent)
    writer.write_eof()
    got = await reader.read()
    writer.close()
    await writer.wait_closed()
    return got == sent


async def ask_all(address, port, connections, count):
    answers = await asyncio.gather(*(ask(address, port, count) for _ in range(connections)))
    print(f"{sum(answers)} of {len(answers)} the same")


address, port, *counts = sys.argv[1:]
asyncio.run(ask_all(address, port, *map(int, counts)) if counts else serve(address, port))
