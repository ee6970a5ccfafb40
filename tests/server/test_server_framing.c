// test_server_framing.c - heads and bodies that two programs in a row could read differently: none
// of them is served, the connection ends, and what follows on it is not taken for a request.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/waits.h"
#include "unit/cmocka_all.h"

#define POST   "POST /v1/completions HTTP/1.1\r\n"
#define HOST   "Host: localhost\r\n"
#define TYPE   "Content-Type: application/json\r\n"
#define SAY    "{\"prompt\":\"say a\"}" // 18 bytes
#define NEXT   "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
// One chunk of SAY and the end.
#define CHUNKS "12\r\n" SAY "\r\n0\r\n\r\n"

#define BYTES(text) text, sizeof text - 1

typedef struct raw_row {
    const char *what;
    const char *bytes; // sent, followed by NEXT
    size_t n_bytes;
    int status; // of the only answer
} raw_row;

static void send_raw(int fd, const char *p, size_t n)
{
    assert_int_equal(send(fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void check_row(const raw_row *row, int port)
{
    const int fd = http_open(port);
    send_raw(fd, row->bytes, row->n_bytes);
    send_raw(fd, BYTES(NEXT));
    http_reply first = http_read(fd), second = http_read(fd);
    if (first.status != row->status) fail_msg("%s: got %d", row->what, first.status);
    if (second.status) fail_msg("%s: what follows was answered with %d", row->what, second.status);
    http_reply_free(&first);
    http_reply_free(&second);
    close(fd);
}

// Checks that no row's body reached the engine.
static void check_rows(const raw_row *rows, size_t n)
{
    fixture f = fixture_open((fxi_server_options){.max_body_bytes = 1000});
    for (size_t i = 0; i < n; i++) {
        check_row(&rows[i], f.port);
        if (fake_engine_counts(f.eng).n_submitted) fail_msg("%s: it was served", rows[i].what);
    }
    fixture_close(&f);
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof rows / sizeof rows[0])

// ---- heads ------------------------------------------------------------------------------------

FX_TEST(test_lengths_that_leave_a_doubt_are_refused)
{
#define LENGTH(text) BYTES(POST HOST TYPE text "\r\n" SAY)
    static const raw_row rows[] = {
        {"two that differ", LENGTH("Content-Length: 18\r\nContent-Length: 5\r\n"), 400},
        {"two, the first 0", LENGTH("Content-Length: 0\r\nContent-Length: 18\r\n"), 400},
        {"two that are equal", LENGTH("Content-Length: 18\r\nContent-Length: 18\r\n"), 400},
        {"a list", LENGTH("Content-Length: 18, 18\r\n"), 400},
        {"a sign", LENGTH("Content-Length: +18\r\n"), 400},
        {"negative", LENGTH("Content-Length: -18\r\n"), 400},
        {"hexadecimal", LENGTH("Content-Length: 0x12\r\n"), 400},
        {"two numbers", LENGTH("Content-Length: 18 5\r\n"), 400},
        {"empty", LENGTH("Content-Length:\r\n"), 400},
        {"a blank behind", LENGTH("Content-Length: 18 \r\n"), 400},
        {"a blank before the colon", LENGTH("Content-Length : 18\r\n"), 400},
        {"beyond 64 bits", LENGTH("Content-Length: 18446744073709551617\r\n"), 413},
        {"beyond the limit", LENGTH("Content-Length: 9223372036854775807\r\n"), 413},
    };
    CHECK_ROWS(rows);
}

FX_TEST(test_codings_that_leave_a_doubt_are_refused)
{
#define CODING(text) BYTES(POST HOST TYPE text "\r\n" CHUNKS)
    static const raw_row rows[] = {
        {"with a length", CODING("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"before a length", CODING("Transfer-Encoding: chunked\r\nContent-Length: 28\r\n"), 400},
        {"with the length 0", CODING("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"a blank before the colon", CODING("Transfer-Encoding : chunked\r\n"), 400},
        {"a tab before the colon", CODING("Transfer-Encoding\t: chunked\r\n"), 400},
        {"twice", CODING("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"twice, one hidden", CODING("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n"),
         400},
        {"identity", CODING("Transfer-Encoding: identity\r\n"), 501},
        {"gzip first", CODING("Transfer-Encoding: gzip, chunked\r\n"), 501},
        {"chunked twice in a list", CODING("Transfer-Encoding: chunked, chunked\r\n"), 501},
        {"another word", CODING("Transfer-Encoding: xchunked\r\n"), 501},
        {"quoted", CODING("Transfer-Encoding: \"chunked\"\r\n"), 501},
        {"empty", CODING("Transfer-Encoding:\r\n"), 501},
        {"a vertical tab",
         CODING("Transfer-Encoding: \x0b"
                "chunked\r\n"),
         400},
        {"in HTTP/1.0",
         BYTES("POST /v1/completions HTTP/1.0\r\n" HOST TYPE
               "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" CHUNKS),
         400},
    };
    CHECK_ROWS(rows);
}

FX_TEST(test_lines_that_hide_something_are_refused)
{
#define LINE(text) BYTES(POST HOST TYPE text "\r\n" SAY)
    static const raw_row rows[] = {
        {"a value goes on", LINE("X-A: b\r\n c\r\nContent-Length: 18\r\n"), 400},
        {"a coding goes on", LINE("Transfer-Encoding:\r\n chunked\r\n"), 400},
        {"a length goes on", LINE("Content-Length: 1\r\n 8\r\n"), 400},
        // One that adds the second line to the name makes Transfer-Encoding of it.
        {"a name goes on", LINE("Transfer-Encodin: chunked\r\n g\r\n"), 400},
        {"a length's name goes on", LINE("Content-Lengt: 18\r\n h\r\n"), 400},
        {"the first line goes on", BYTES(POST " " HOST TYPE "Content-Length: 18\r\n\r\n" SAY), 400},
        {"a newline alone", LINE("X-A: b\nContent-Length: 18\r\n"), 400},
        {"a newline behind the length", LINE("Content-Length: 18\n"), 400},
        {"a newline ends the head", BYTES(POST HOST TYPE "Content-Length: 18\r\n\n" SAY), 400},
        {"a newline behind the request line",
         BYTES("POST /v1/completions HTTP/1.1\n" HOST TYPE "Content-Length: 18\r\n\r\n" SAY), 400},
        {"a return in a value", LINE("X-A: b\rContent-Length: 18\r\n"), 400},
        {"a NUL in a value", LINE("X-A: b\0c\r\nContent-Length: 18\r\n"), 400},
        {"a NUL in the length",
         LINE("Content-Length: 18\0"
              "0\r\n"),
         400},
        {"NULs that hide the length, at the end",
         BYTES(POST HOST "X-A: b\0\0\0\0\0\0Content-Length: 18\r\n\r\n" SAY), 400},
        {"a NUL in a name", LINE("X-A\0B: c\r\nContent-Length: 18\r\n"), 400},
        {"a control character", LINE("X-A: \x01\r\nContent-Length: 18\r\n"), 400},
        {"a delete character", LINE("X-A: \x7f\r\nContent-Length: 18\r\n"), 400},
        {"no colon", LINE("X-A\r\nContent-Length: 18\r\n"), 400},
        {"no name", LINE(": b\r\nContent-Length: 18\r\n"), 400},
        {"a name of two words", LINE("X A: b\r\nContent-Length: 18\r\n"), 400},
        {"a name with a bracket", LINE("X(A: b\r\nContent-Length: 18\r\n"), 400},
    };
    CHECK_ROWS(rows);
}

FX_TEST(test_request_lines_and_hosts_that_are_none_are_refused)
{
#define GET(line) BYTES(line "\r\n" HOST "\r\n")
    static const raw_row rows[] = {
        {"a blank in the path", GET("GET /hea lth HTTP/1.1"), 400},
        {"two blanks", GET("GET  /health HTTP/1.1"), 400},
        {"two blanks before the version", GET("GET /health  HTTP/1.1"), 400},
        {"a tab", GET("GET\t/health HTTP/1.1"), 400},
        {"a NUL in the path", GET("GET /health\0x HTTP/1.1"), 400},
        {"an escaped NUL", GET("GET /health%00 HTTP/1.1"), 400},
        {"a control character", GET("GET /health\x01 HTTP/1.1"), 400},
        {"a method that is no word", GET("G(T /health HTTP/1.1"), 400},
        {"another protocol", GET("GET /health HTTQ/1.1"), 400},
        {"a later version", GET("GET /health HTTP/2.0"), 505},
        {"no version", GET("GET /health"), 400},
        {"no Host", BYTES("GET /health HTTP/1.1\r\nX-A: b\r\n\r\n"), 400},
        {"nothing but the line", BYTES("GET /health HTTP/1.1\r\n\r\n"), 400},
        {"two Hosts", BYTES("GET /health HTTP/1.1\r\n" HOST HOST "\r\n"), 400},
        {"two Hosts that differ", BYTES("GET /health HTTP/1.1\r\n" HOST "Host: b\r\n\r\n"), 400},
    };
    CHECK_ROWS(rows);
}

// ---- chunks -----------------------------------------------------------------------------------

FX_TEST(test_chunks_that_are_none_are_refused)
{
#define CHUNK(text) BYTES(POST HOST TYPE "Transfer-Encoding: chunked\r\n\r\n" text)
    static const raw_row rows[] = {
        {"a size that is no number", CHUNK("zz\r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"a negative size", CHUNK("-12\r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"a prefix", CHUNK("0x12\r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"a blank behind the size", CHUNK("12 \r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"no size", CHUNK("\r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"a size beyond 64 bits", CHUNK("10000000000000012\r\n" SAY "\r\n0\r\n\r\n"), 413},
        {"more than its size", CHUNK("11\r\n" SAY "\r\n0\r\n\r\n"), 400},
        {"less than its size", CHUNK("14\r\n" SAY "\r\n0\r\n\r\n"), 400},
    };
    CHECK_ROWS(rows);
}

// ---- what is served ---------------------------------------------------------------------------

// Several requests at once, one behind the other, of every shape that is allowed: answered in
// order.
FX_TEST(test_pipelined_requests_are_answered_in_order)
{
    static const char all[] = POST HOST TYPE
        "Content-Length: 18\r\n\r\n{\"prompt\":\"say a\"}"
        "\r\n" // an empty line before a request
        POST HOST TYPE "Transfer-Encoding: chunked\r\n\r\n"
        "9;name=value\r\n{\"prompt\"\r\n9\r\n:\"say b\"}\r\n0\r\nX-Trailer: c\r\n\r\n" POST HOST
            TYPE "Content-Length: 018\r\n\r\n{\"prompt\":\"say c\"}" POST HOST TYPE
        "transfer-encoding:Chunked\r\n\r\n12\r\n{\"prompt\":\"say d\"}\r\n0\r\n\r\n" NEXT;
    fixture f = fixture_open((fxi_server_options){0});
    const int fd = http_open(f.port);
    send_raw(fd, BYTES(all));
    static const char *const want[] = {"\"text\":\"a\"", "\"text\":\"b\"", "\"text\":\"c\"",
                                       "\"text\":\"d\"", "ok"};
    for (int i = 0; i < 5; i++) expect_reply(http_read(fd), 200, want[i]);
    assert_int_equal(fake_engine_counts(f.eng).n_submitted, 4);
    close(fd);
    fixture_close(&f);
}

// A head as large as allowed arrives in two pieces, whatever the place where it is cut.
FX_TEST(test_a_head_may_arrive_in_pieces)
{
    static const char head[] = POST HOST TYPE "X-Empty:\r\nX-Blank: \t \r\nX-Text: a b\tc\r\n"
                                              "Cookie: a=b; c=\"d\"\r\nContent-Length: 18\r\n\r\n";
    fixture f = fixture_open((fxi_server_options){0});
    const int fd = http_open(f.port);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (size_t cut = 1; cut < sizeof head - 1; cut++) {
        send_raw(fd, head, cut);
        usleep(200); // so that it usually arrives as two
        send_raw(fd, head + cut, sizeof head - 1 - cut);
        send_raw(fd, BYTES(SAY));
        expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    }
    close(fd);
    fixture_close(&f);
}

FX_RUN(test_server_framing)
