// Boost.Asio: asynchronous echo server on two threads, and a client with one connection.
#include "trips.h"
#include <boost/asio.hpp>
#include <cstring>
#include <memory>
#include <thread>

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t SIZE = 64;

class Session : public std::enable_shared_from_this<Session> {
public:
    explicit Session(tcp::socket socket) : socket_(std::move(socket)) { socket_.set_option(tcp::no_delay(true)); }

    void read() {
        auto self = shared_from_this();
        socket_.async_read_some(boost::asio::buffer(data_), [self](error_code error, std::size_t length) {
            if (!error) self->write(length);
        });
    }

private:
    void write(std::size_t length) {
        auto self = shared_from_this();
        boost::asio::async_write(socket_, boost::asio::buffer(data_, length), [self](error_code error, std::size_t) {
            if (!error) self->read();
        });
    }

    tcp::socket socket_;
    char data_[4096];
};

static void accept(tcp::acceptor &acceptor) {
    acceptor.async_accept([&acceptor](error_code error, tcp::socket socket) {
        if (!error) std::make_shared<Session>(std::move(socket))->read();
        accept(acceptor);
    });
}

static void trip(void *context) {
    auto &socket = *static_cast<tcp::socket *>(context);
    char data[SIZE] = {};
    boost::asio::write(socket, boost::asio::buffer(data));
    boost::asio::read(socket, boost::asio::buffer(data));
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    boost::asio::io_context io;
    tcp::endpoint endpoint(boost::asio::ip::make_address(arguments[2]), static_cast<unsigned short>(std::atoi(arguments[3])));
    if (!std::strcmp(arguments[1], "serve")) {
        tcp::acceptor acceptor(io, endpoint);
        accept(acceptor);
        std::thread second([&io] { io.run(); });
        io.run();
        second.join();
        return 0;
    }
    if (count < 5) return 2;
    tcp::socket socket(io);
    socket.connect(endpoint);
    socket.set_option(tcp::no_delay(true));
    trips_measure(std::atof(arguments[4]), trip, &socket);
}
