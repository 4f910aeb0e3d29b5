// A program of .NET with the sockets that .NET programs use: TcpListener, TcpClient and UdpClient,
// all of them asynchronous.
//
//     Echo server ADDRESS PORT
//     Echo client ADDRESS PORT ROUND_TRIPS BYTES

using System;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Threading.Tasks;

static class Echo {
    static int Main(string[] words) {
        IPEndPoint at = new IPEndPoint(IPAddress.Parse(words[1]), int.Parse(words[2]));
        if (words[0] == "server") {
            Serve(at).Wait();
        } else {
            Ask(at, int.Parse(words[3]), int.Parse(words[4])).Wait();
        }
        return 0;
    }

    static async Task Serve(IPEndPoint here) {
        Task datagrams = Datagrams(new UdpClient(here));
        TcpListener listener = new TcpListener(here);
        listener.Start();
        Console.WriteLine("ready");
        while (true) {
            Task connection = Connection(await listener.AcceptTcpClientAsync());
        }
    }

    static async Task Datagrams(UdpClient socket) {
        while (true) {
            UdpReceiveResult received = await socket.ReceiveAsync();
            await socket.SendAsync(received.Buffer, received.Buffer.Length, received.RemoteEndPoint);
        }
    }

    static async Task Connection(TcpClient client) {
        client.NoDelay = true;
        NetworkStream stream = client.GetStream();
        byte[] buffer = new byte[65536];
        int count;
        while ((count = await stream.ReadAsync(buffer, 0, buffer.Length)) > 0) {
            await stream.WriteAsync(buffer, 0, count);
        }
        client.Close();
    }

    static async Task Ask(IPEndPoint peer, int roundTrips, int bytes) {
        UdpClient socket = new UdpClient();
        socket.Connect(peer);
        TcpClient client = new TcpClient();
        await client.ConnectAsync(peer.Address, peer.Port);
        client.NoDelay = true;
        NetworkStream stream = client.GetStream();
        double[] times = new double[roundTrips];
        for (int number = 0; number < roundTrips; number++) {
            byte[] sent = Pattern(64, number);
            await socket.SendAsync(sent, sent.Length);
            Check(sent, (await socket.ReceiveAsync()).Buffer, 64);
            Stopwatch watch = Stopwatch.StartNew();
            await stream.WriteAsync(sent, 0, sent.Length);
            byte[] answer = new byte[64];
            await ReadExactly(stream, answer);
            times[number] = watch.Elapsed.TotalMilliseconds * 1000;
            Check(sent, answer, 64);
        }
        byte[] data = Pattern(bytes, 1), echoed = new byte[bytes];
        Task written = stream.WriteAsync(data, 0, bytes);
        await ReadExactly(stream, echoed);
        await written;
        Check(data, echoed, bytes);
        client.Close();
        Array.Sort(times);
        Console.WriteLine("p50_us=" + times[roundTrips / 2].ToString("F1", System.Globalization.CultureInfo.InvariantCulture));
        Console.WriteLine("done");
    }

    static async Task ReadExactly(NetworkStream stream, byte[] into) {
        for (int have = 0; have < into.Length;) {
            int count = await stream.ReadAsync(into, have, into.Length - have);
            if (count == 0) {
                throw new Exception("the stream ends after " + have + " bytes");
            }
            have += count;
        }
    }

    static byte[] Pattern(int count, int seed) {
        byte[] data = new byte[count];
        for (int place = 0; place < count; place++) {
            data[place] = (byte)(place * 7 / 5 + seed);
        }
        return data;
    }

    static void Check(byte[] sent, byte[] received, int count) {
        if (received.Length != count) {
            throw new Exception(received.Length + " bytes instead of " + count);
        }
        for (int place = 0; place < count; place++) {
            if (sent[place] != received[place]) {
                throw new Exception("byte " + place + " is another");
            }
        }
    }
}
