// .NET sockets with async and await, as Mono runs them: echo server, client with one connection.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Threading.Tasks;

static class Echo {
    const int Size = 64;
    const double WarmUpSeconds = 0.25;

    static int Main(string[] arguments) {
        var address = IPAddress.Parse(arguments[1]);
        var port = int.Parse(arguments[2]);
        if (arguments[0] == "serve") Serve(address, port).Wait();
        else Ask(address, port, double.Parse(arguments[3], CultureInfo.InvariantCulture)).Wait();
        return 0;
    }

    static async Task Serve(IPAddress address, int port) {
        var listener = new TcpListener(address, port);
        listener.Start();
        while (true) {
            var client = await listener.AcceptTcpClientAsync();
            _ = Task.Run(() => Answer(client));
        }
    }

    static async Task Answer(TcpClient client) {
        client.NoDelay = true;
        var stream = client.GetStream();
        var buffer = new byte[4096];
        int length;
        while ((length = await stream.ReadAsync(buffer, 0, buffer.Length)) > 0)
            await stream.WriteAsync(buffer, 0, length);
    }

    static async Task Ask(IPAddress address, int port, double seconds) {
        var client = new TcpClient();
        await client.ConnectAsync(address, port);
        client.NoDelay = true;
        var stream = client.GetStream();
        var buffer = new byte[Size];
        var clock = Stopwatch.StartNew();
        while (clock.Elapsed.TotalSeconds < WarmUpSeconds) await Trip(stream, buffer);
        var taken = new List<double>();
        clock.Restart();
        while (clock.Elapsed.TotalSeconds < seconds) {
            var sent = Stopwatch.GetTimestamp();
            await Trip(stream, buffer);
            taken.Add((Stopwatch.GetTimestamp() - sent) * 1e6 / Stopwatch.Frequency);
        }
        taken.Sort();
        Console.WriteLine(string.Format(CultureInfo.InvariantCulture, "trips={0} p50_us={1:F2} p99_us={2:F2}",
            taken.Count, taken[taken.Count / 2], taken[taken.Count * 99 / 100]));
    }

    static async Task Trip(NetworkStream stream, byte[] buffer) {
        await stream.WriteAsync(buffer, 0, Size);
        for (var received = 0; received < Size;) {
            var length = await stream.ReadAsync(buffer, received, Size - received);
            if (length == 0) throw new Exception("the server closed the connection");
            received += length;
        }
    }
}
