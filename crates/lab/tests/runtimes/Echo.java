import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** An echo with one selector at each end: {@code serve ADDRESS PORT}, {@code ask ADDRESS PORT}. Then blocking sockets, and how they are closed and interrupted. */
public class Echo {
    static final int CONNECTIONS = 40;
    static final int BYTES = 100_000;

    public static void main(String[] arguments) throws Exception {
        var address = new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        if (arguments[0].equals("serve")) {
            serve(address);
        }
        select(address);
        block(address);
        end(address);
        System.out.println("all came back");
        System.exit(0);
    }

    /** What has been received by a connection and not been sent back yet, and whether more will come. */
    static class Held {
        final ByteBuffer buffer = ByteBuffer.allocateDirect(16_384);
        boolean ended;
    }

    static void serve(InetSocketAddress address) throws IOException {
        var selector = Selector.open();
        var listener = ServerSocketChannel.open().bind(address, 100);
        listener.configureBlocking(false).register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select(key -> {
                try {
                    if (!key.isAcceptable()) {
                        echo(key);
                        return;
                    }
                    for (SocketChannel accepted; (accepted = listener.accept()) != null; ) {
                        accepted.configureBlocking(false).register(selector, SelectionKey.OP_READ, new Held());
                    }
                } catch (IOException reset) {
                    key.cancel();
                }
            });
        }
    }

    static void echo(SelectionKey key) throws IOException {
        var channel = (SocketChannel) key.channel();
        var held = (Held) key.attachment();
        held.ended |= key.isReadable() && channel.read(held.buffer) < 0;
        held.buffer.flip();
        channel.write(held.buffer);
        held.buffer.compact();
        if (held.ended && held.buffer.position() == 0) {
            channel.close();
            return;
        }
        var reading = !held.ended && held.buffer.hasRemaining() ? SelectionKey.OP_READ : 0;
        key.interestOps(reading | (held.buffer.position() > 0 ? SelectionKey.OP_WRITE : 0));
    }

    /** What a connection of the client has still to send, and what has come back. */
    static class Sent {
        final byte[] bytes = new byte[BYTES];
        final ByteBuffer[] rest;
        final ByteBuffer back = ByteBuffer.allocate(BYTES + 1);

        Sent(int number) {
            new Random(number).nextBytes(bytes);
            rest = new ByteBuffer[] {ByteBuffer.wrap(bytes, 0, 1000), ByteBuffer.wrap(bytes, 1000, BYTES - 1000)};
        }
    }

    static void select(InetSocketAddress address) throws IOException {
        var selector = Selector.open();
        for (int number = 0; number < CONNECTIONS; number++) {
            var channel = SocketChannel.open();
            channel.configureBlocking(false);
            var done = channel.connect(address) ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_CONNECT;
            channel.register(selector, done, new Sent(number));
        }
        while (!selector.keys().isEmpty()) {
            if (selector.selectedKeys().isEmpty() && selector.select(20_000) == 0) {
                throw new IOException(selector.keys().size() + " connections stand still");
            }
            for (var key : selector.selectedKeys()) {
                progress(key);
            }
            selector.selectedKeys().clear();
            // Keys of closed channels leave with the next selection.
            selector.selectNow();
        }
    }

    static void progress(SelectionKey key) throws IOException {
        var channel = (SocketChannel) key.channel();
        var sent = (Sent) key.attachment();
        if (key.isConnectable()) {
            channel.finishConnect();
            key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            return;
        }
        if (key.isWritable()) {
            channel.write(sent.rest);
            if (!sent.rest[1].hasRemaining()) {
                channel.shutdownOutput();
                key.interestOps(SelectionKey.OP_READ);
            }
        }
        if (key.isReadable() && channel.read(sent.back) < 0) {
            if (!Arrays.equals(sent.bytes, Arrays.copyOf(sent.back.array(), sent.back.position()))) {
                throw new IOException("something else came back");
            }
            channel.close();
        }
    }

    static void block(InetSocketAddress address) throws Exception {
        try (var socket = new Socket()) {
            socket.connect(address, 10_000);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(10_000);
            for (int length : new int[] {1, 1000, 50_000}) {
                var message = new byte[length];
                new Random(length).nextBytes(message);
                socket.getOutputStream().write(message);
                if (!Arrays.equals(message, socket.getInputStream().readNBytes(length))) {
                    throw new IOException("something else came back");
                }
            }
            socket.setSoTimeout(30);
            try {
                socket.getInputStream().read();
                throw new IOException("something came");
            } catch (SocketTimeoutException expected) {
                // Nothing was asked for.
            }
        }
    }

    /** A thread that waits for data is woken when another one closes its socket, or interrupts it. */
    static void end(InetSocketAddress address) throws Exception {
        var threads = Executors.newCachedThreadPool();
        var socket = new Socket(address.getAddress(), address.getPort());
        var reading = threads.submit(() -> socket.getInputStream().read());
        Thread.sleep(100);
        socket.close();
        expect(reading, SocketException.class);

        var channel = SocketChannel.open(address);
        reading = threads.submit(() -> channel.read(ByteBuffer.allocate(10)));
        Thread.sleep(100);
        channel.close();
        expect(reading, AsynchronousCloseException.class);

        var interrupted = SocketChannel.open(address);
        var other = Executors.newSingleThreadExecutor();
        reading = other.submit(() -> interrupted.read(ByteBuffer.allocate(10)));
        Thread.sleep(100);
        other.shutdownNow();
        expect(reading, ClosedByInterruptException.class);

        // The same for a thread that waits for a connection.
        var listener = ServerSocketChannel.open().bind(null);
        var accepting = threads.submit(() -> listener.accept());
        Thread.sleep(100);
        listener.close();
        expect(accepting, AsynchronousCloseException.class);
    }

    static void expect(Future<?> work, Class<?> cause) throws Exception {
        try {
            throw new IOException("it ended with " + work.get(10, TimeUnit.SECONDS));
        } catch (ExecutionException ended) {
            if (!cause.isInstance(ended.getCause())) {
                throw ended;
            }
        }
    }
}
