// Netty with its native epoll transport (C code behind JNI): echo server, client with one
// connection.

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.socket.SocketChannel;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public final class Echo {
    static final int SIZE = 64;
    /** The compiler settles before that. */
    static final long WARM_UP_NS = 1_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        Epoll.ensureAvailability();
        String address = arguments[1];
        int port = Integer.parseInt(arguments[2]);
        EventLoopGroup group = new EpollEventLoopGroup(2);
        if (arguments[0].equals("serve")) {
            serve(group, address, port);
        } else {
            ask(group, address, port, Double.parseDouble(arguments[3]));
        }
    }

    static void serve(EventLoopGroup group, String address, int port) throws Exception {
        new ServerBootstrap()
            .group(group)
            .channel(EpollServerSocketChannel.class)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    channel.pipeline().addLast(new ChannelInboundHandlerAdapter() {
                        @Override
                        public void channelRead(ChannelHandlerContext context, Object message) {
                            context.writeAndFlush(message);
                        }
                    });
                }
            })
            .bind(address, port).sync().channel().closeFuture().sync();
    }

    static void ask(EventLoopGroup group, String address, int port, double seconds) throws Exception {
        Client client = new Client((long) (seconds * 1e9));
        new Bootstrap()
            .group(group)
            .channel(EpollSocketChannel.class)
            .option(ChannelOption.TCP_NODELAY, true)
            .handler(client)
            .connect(address, port).sync();
        if (!client.done.await((long) seconds + 15, TimeUnit.SECONDS)) {
            System.err.println("no reply after " + client.count + " round trips");
            System.exit(3);
        }
        System.out.println(client.report());
        System.exit(0);
    }

    static final class Client extends ChannelInboundHandlerAdapter {
        final CountDownLatch done = new CountDownLatch(1);
        final float[] taken = new float[4_000_000];
        final long lasting;
        volatile int count;
        long began;
        long sent;
        int received;

        Client(long lasting) {
            this.lasting = lasting;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            began = System.nanoTime() + WARM_UP_NS;
            send(context);
        }

        void send(ChannelHandlerContext context) {
            sent = System.nanoTime();
            context.writeAndFlush(Unpooled.wrappedBuffer(new byte[SIZE]));
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf data = (ByteBuf) message;
            received += data.readableBytes();
            data.release();
            if (received < SIZE) {
                return;
            }
            received -= SIZE;
            long now = System.nanoTime();
            if (now >= began) {
                taken[count] = (now - sent) / 1e3f;
                count++;
            }
            if (now >= began + lasting || count == taken.length) {
                done.countDown();
            } else {
                send(context);
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            cause.printStackTrace();
            System.exit(1);
        }

        String report() {
            float[] sorted = Arrays.copyOf(taken, count);
            Arrays.sort(sorted);
            return String.format(Locale.ROOT, "trips=%d p50_us=%.2f p99_us=%.2f",
                count, sorted[count / 2], sorted[(int) (count * 99L / 100)]);
        }
    }
}
