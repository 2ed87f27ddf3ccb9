/*
 * floor: the cheapest servers that get a request from a TCP socket and put an
 * answer back. What they cost is what the kernel costs; scripts/bench divides
 * every other server by them.
 *
 *     cc -O2 -Wall -Wextra -pedantic -o floor floor.c
 *     ./floor MODE [FILE] [PORT]
 *
 *     fixed           an answer without a body: one recv, one send
 *     map FILE        head and file by one sendmsg; the file is mapped
 *     sendfile FILE   head by send with MSG_MORE, then sendfile
 *     close           one connection, one answer: accept4, recv, send, close,
 *                     because TCP_DEFER_ACCEPT hands over only connections
 *                     whose request is there to be read
 *     close-epoll     the same without TCP_DEFER_ACCEPT: every connection is
 *                     put into epoll and waited for
 *
 * Listens on 127.0.0.1; PORT 0, the default, is any free one. One thread, epoll
 * edge-triggered, until killed.
 *
 * It is not an HTTP server. It never looks at what it received: it assumes that
 * one readiness is one whole request, so a request in two segments gets two
 * answers and two pipelined ones get one. A client that sends its last request
 * and its FIN together is answered but not closed: seeing the FIN would take a
 * second recv, and the load tools that this is for never do that.
 */
#define _GNU_SOURCE /* accept4, MAP_POPULATE */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    REQUEST_BYTES_MAX = 4096, /* load tools send about 100 */
    HEAD_BYTES_MAX = 512,
    EVENTS_MAX = 1024,        /* arbitrary; far above the connections of most runs */
    DEFER_S = 5,              /* arbitrary; the clients here never stay silent */
};

/* What is said, the same to everyone. The fields are those that tared sends, so
 * that the kernel carries as many bytes. Date stands still: moving it once a
 * second would not be measurable. */
static char head[HEAD_BYTES_MAX];
static size_t head_bytes;
static int file = -1;
static const char *mapping;
static size_t file_bytes;

/* How much of head and file each connection has got, by descriptor. 0 is a
 * connection that waits for its next request. */
static size_t *sent_bytes;

static int epoll;
static int listener;

static _Noreturn void fail(const char *attempt)
{
    fprintf(stderr, "floor: cannot %s: %s\n", attempt, strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- One connection ------------------------------------------------------ */

/* True if a request came; otherwise the connection is closed, or epoll reported
 * a readiness that is gone. Closing also takes the descriptor out of epoll. */
static bool receive(int connection)
{
    char request[REQUEST_BYTES_MAX];
    ssize_t received = recv(connection, request, sizeof request, 0);
    if (received > 0)
        return true;
    if (received == 0 || errno != EAGAIN)
        close(connection);
    return false;
}

static void answer_fixed(int connection)
{
    if (receive(connection) && send(connection, head, head_bytes, 0) != (ssize_t)head_bytes)
        close(connection); /* the client has reset, or stopped reading */
}

static void answer_and_close(int connection)
{
    if (!receive(connection))
        return;
    /* What fails here is the client's loss; we are leaving anyway. */
    (void)send(connection, head, head_bytes, 0);
    close(connection);
}

static ssize_t send_mapped(int connection, size_t sent)
{
    struct iovec parts[] = {
        {.iov_base = head, .iov_len = head_bytes},
        {.iov_base = (char *)mapping, .iov_len = file_bytes},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (sent > 0) {
        /* A head that does not fit into an empty socket buffer cannot be. */
        parts[1].iov_base = (char *)mapping + (sent - head_bytes);
        parts[1].iov_len = file_bytes - (sent - head_bytes);
        message.msg_iov = &parts[1];
        message.msg_iovlen = 1;
    }
    return sendmsg(connection, &message, 0);
}

static ssize_t send_by_sendfile(int connection, size_t sent)
{
    size_t fresh_bytes = 0;
    if (sent == 0) {
        if (send(connection, head, head_bytes, MSG_MORE) != (ssize_t)head_bytes)
            return -1;
        fresh_bytes = sent = head_bytes;
    }
    off_t offset = (off_t)(sent - head_bytes);
    ssize_t moved = sendfile(connection, file, &offset, file_bytes - (size_t)offset);
    if (moved >= 0)
        return (ssize_t)fresh_bytes + moved;
    /* The head is gone out even if the file could not begin. */
    return errno == EAGAIN && fresh_bytes > 0 ? (ssize_t)fresh_bytes : -1;
}

/* A write that comes up short has filled the socket's buffer, and the edge that
 * tells of room is still to come: epoll(7) says so, and it saves the write that
 * would only return EAGAIN. */
static void answer_file(int connection, ssize_t (*send_some)(int connection, size_t sent))
{
    size_t *sent = &sent_bytes[connection];
    if (*sent == 0 && !receive(connection))
        return;
    ssize_t moved = send_some(connection, *sent);
    if (moved < 0 && errno == EAGAIN)
        return;
    if (moved < 0) {
        *sent = 0;
        close(connection);
        return;
    }
    *sent += (size_t)moved;
    if (*sent == head_bytes + file_bytes)
        *sent = 0;
}

static void answer_mapped(int connection)
{
    answer_file(connection, send_mapped);
}

static void answer_by_sendfile(int connection)
{
    answer_file(connection, send_by_sendfile);
}

/* ---- All connections ----------------------------------------------------- */

static void watch(int descriptor, unsigned interest)
{
    struct epoll_event event = {.events = interest | EPOLLET, .data.fd = descriptor};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0)
        fail("add a socket to epoll");
}

static void watch_reading(int connection)
{
    watch(connection, EPOLLIN);
}

/* Both from the start: an edge for room comes only after a write fell short, so
 * that asking for it costs one vain report in the life of a connection. */
static void watch_reading_and_writing(int connection)
{
    watch(connection, EPOLLIN | EPOLLOUT);
}

/* A deferred connection brings its request. One that comes without it (the
 * kernel gave up waiting) is left to epoll, as is every other server's. */
static void answer_at_once(int connection)
{
    char request[REQUEST_BYTES_MAX];
    ssize_t received = recv(connection, request, sizeof request, 0);
    if (received < 0 && errno == EAGAIN) {
        watch_reading(connection);
        return;
    }
    if (received > 0)
        (void)send(connection, head, head_bytes, 0);
    close(connection);
}

struct mode {
    const char *name;
    bool takes_file;
    bool defers;                      /* TCP_DEFER_ACCEPT */
    const char *persistence;          /* what Connection says */
    void (*greet)(int connection);    /* a new connection */
    void (*answer)(int connection);   /* a connection that epoll reports */
};

static const struct mode MODES[] = {
    {"fixed", false, false, "keep-alive", watch_reading, answer_fixed},
    {"map", true, false, "keep-alive", watch_reading_and_writing, answer_mapped},
    {"sendfile", true, false, "keep-alive", watch_reading_and_writing, answer_by_sendfile},
    {"close", false, true, "close", answer_at_once, answer_and_close},
    {"close-epoll", false, false, "close", watch_reading, answer_and_close},
};

/* The listener's edge is reported once for all who wait, so take them all. */
static void accept_all(const struct mode *mode)
{
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (connection >= 0)
            mode->greet(connection);
        else if (errno == EAGAIN)
            return;
        else if (errno != ECONNABORTED && errno != EINTR)
            fail("accept a connection");
    }
}

static _Noreturn void serve(const struct mode *mode)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR)
            fail("wait for events");
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                accept_all(mode);
            else
                mode->answer(events[i].data.fd);
        }
    }
}

/* ---- Before the first connection ----------------------------------------- */

static void open_file(const char *path)
{
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail("open the file");
    struct stat facts;
    if (fstat(file, &facts) < 0)
        fail("learn the size of the file");
    file_bytes = (size_t)facts.st_size;
    if (file_bytes == 0) {
        fprintf(stderr, "floor: the file is empty, use 'fixed'\n");
        exit(EXIT_FAILURE);
    }
    /* Populated: the faults of the first pass are not what is asked about. */
    mapping = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (mapping == MAP_FAILED)
        fail("map the file");
}

static void write_head(const struct mode *mode)
{
    static const char FILE_FIELDS[] =
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
        "ETag: \"0123456789abcdef\"\r\n"
        "Accept-Ranges: bytes\r\n";
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\n"
                          "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                          "Server: floor\r\n"
                          "Content-Type: text/html\r\n"
                          "%s"
                          "Content-Length: %zu\r\n"
                          "Connection: %s\r\n"
                          "\r\n",
                          mode->takes_file ? FILE_FIELDS : "", file_bytes, mode->persistence);
    if (length < 0 || (size_t)length >= sizeof head)
        fail("write the head");
    head_bytes = (size_t)length;
}

static void make_room_for_connections(void)
{
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        fail("learn how many descriptors there may be");
    sent_bytes = calloc(descriptors.rlim_cur, sizeof *sent_bytes);
    if (sent_bytes == NULL)
        fail("get memory");
}

static void listen_on_loopback(in_port_t port, bool defers)
{
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0)
        fail("make a socket");

    const int on = 1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("set SO_REUSEADDR");
    /* On Linux a connection inherits this from its listener: no call for each. */
    if (setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        fail("set TCP_NODELAY");
    const int defer_s = DEFER_S;
    if (defers && setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof defer_s) < 0)
        fail("set TCP_DEFER_ACCEPT");

    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind to 127.0.0.1");
    if (listen(listener, SOMAXCONN) < 0)
        fail("listen");
}

static void announce(void)
{
    struct sockaddr_in address;
    socklen_t address_bytes = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &address_bytes) < 0)
        fail("learn the port");
    if (printf("floor on http://127.0.0.1:%d/\n", ntohs(address.sin_port)) < 0 || fflush(stdout) != 0)
        fail("print the address");
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

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++)
        if (strcmp(MODES[i].name, name) == 0)
            return &MODES[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct mode *mode = argc > 1 ? find_mode(argv[1]) : NULL;
    int port_at = mode != NULL && mode->takes_file ? 3 : 2;
    if (mode == NULL || argc < port_at || argc > port_at + 1) {
        fprintf(stderr, "usage: floor fixed|close|close-epoll [PORT]\n"
                        "       floor map|sendfile FILE [PORT]\n");
        return EXIT_FAILURE;
    }
    if (mode->takes_file) {
        open_file(argv[2]);
        make_room_for_connections();
    }
    /* sendfile has no flag for it: a client that leaves is no reason to die. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        fail("ignore SIGPIPE");
    write_head(mode);
    listen_on_loopback(argc > port_at ? parse_port(argv[port_at]) : 0, mode->defers);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        fail("make an epoll");
    watch(listener, EPOLLIN);
    announce();
    serve(mode);
}
