/*
 * floor: the cheapest server that gets a request from a TCP socket and puts an
 * answer back. What it costs is what the kernel costs; scripts/bench divides
 * every other server by it.
 *
 *     cc -O2 -Wall -Wextra -pedantic -o floor floor.c
 *     ./floor [PORT]        listens on 127.0.0.1; 0, the default, is any free port
 *
 * One thread, epoll edge-triggered, and for each readiness one recv and one
 * send of the same bytes, until killed.
 *
 * It is not an HTTP server. It never looks at what it received: it assumes that
 * one readiness is one whole request, so a request in two segments gets two
 * answers and two pipelined ones get one. A client that sends its last request
 * and its FIN together is answered but not closed: seeing the FIN would take a
 * second recv, and the load tools that this is for never do that.
 */
#define _GNU_SOURCE /* accept4 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* The fields that tared sends, so that the kernel carries as many bytes. Date
 * stands still: moving it once a second would not be measurable. */
static const char ANSWER[] =
    "HTTP/1.1 200 OK\r\n"
    "Server: floor\r\n"
    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    "Content-Type: text/html\r\n"
    "Content-Length: 0\r\n"
    "Connection: keep-alive\r\n"
    "\r\n";

enum {
    ANSWER_BYTES = sizeof ANSWER - 1,
    REQUEST_BYTES_MAX = 4096, /* load tools send about 100 */
    EVENTS_MAX = 1024,        /* arbitrary; far above the connections of one run */
};

static _Noreturn void fail(const char *attempt)
{
    fprintf(stderr, "floor: cannot %s: %s\n", attempt, strerror(errno));
    exit(EXIT_FAILURE);
}

static in_port_t parse_port(const char *text)
{
    char *end;
    errno = 0;
    long port = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || port < 0 || port > 65535) {
        fprintf(stderr, "floor: not a port: '%s' (0 to 65535, 0 for any free one)\n", text);
        exit(EXIT_FAILURE);
    }
    return (in_port_t)port;
}

static int listen_on_loopback(in_port_t port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail("make a socket");

    const int on = 1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("set SO_REUSEADDR");
    /* On Linux a connection inherits this from its listener: no call for each. */
    if (setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        fail("set TCP_NODELAY");

    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind to 127.0.0.1");
    if (listen(listener, SOMAXCONN) < 0)
        fail("listen");
    return listener;
}

static void announce(int listener)
{
    struct sockaddr_in address;
    socklen_t address_bytes = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &address_bytes) < 0)
        fail("learn the port");
    if (printf("floor on http://127.0.0.1:%d/\n", ntohs(address.sin_port)) < 0 || fflush(stdout) != 0)
        fail("print the address");
}

static void watch(int epoll, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = descriptor};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0)
        fail("add a socket to epoll");
}

/* The listener's edge is reported once for all who wait, so take them all. */
static void accept_all(int epoll, int listener)
{
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (connection >= 0)
            watch(epoll, connection);
        else if (errno == EAGAIN)
            return;
        else if (errno != ECONNABORTED && errno != EINTR)
            fail("accept a connection");
    }
}

static void answer(int connection)
{
    char request[REQUEST_BYTES_MAX];
    ssize_t received = recv(connection, request, sizeof request, 0);
    if (received < 0 && errno == EAGAIN)
        return; /* epoll may report a readiness that is gone */
    if (received > 0 && send(connection, ANSWER, ANSWER_BYTES, MSG_NOSIGNAL) == ANSWER_BYTES)
        return;
    /* The client has closed, reset, or stopped reading. Closing also takes the
     * descriptor out of epoll. */
    close(connection);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: floor [PORT]\n");
        return EXIT_FAILURE;
    }
    int listener = listen_on_loopback(argc == 2 ? parse_port(argv[1]) : 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        fail("make an epoll");
    watch(epoll, listener);
    announce(listener);

    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR)
            fail("wait for events");
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll, listener);
            else
                answer(events[i].data.fd);
        }
    }
}
