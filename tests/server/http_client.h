// http_client.h - a plain HTTP/1.1 client for tests, close enough to the socket to misbehave.
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/text/buf.h"

typedef struct http_reply {
    int status; // 0: the connection ended before a status line
    bool cut;   // ended before the body was whole
    fxi_buf head, body;
} http_reply;

int http_open(int port);    // a connected socket with a time limit of 60 s on every read, a guard
int http_open_v6(int port); // to ::1
int http_open_from(int port, int host); // the same from 127.0.0.HOST: another client's address
__attribute__((format(printf, 2, 3))) void http_send(int fd, const char *fmt, ...);
void http_post(int fd, const char *path, const char *body);   // keep-alive
int http_begin(int port, const char *path, const char *body); // a socket on which it was posted
http_reply http_read(int fd);                                 // one response, not a byte more
// Reads the head, then the body until it contains `until`; for streams.
http_reply http_read_until(int fd, const char *until);
void http_leave(int fd); // closes, and returns once the server has closed, too
void http_reset(int fd); // closes with a RST
void http_reply_free(http_reply *r);

// One request on its own connection.
http_reply http_call(int port, const char *method, const char *path, const char *body);

#endif
