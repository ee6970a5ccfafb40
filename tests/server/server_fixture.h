// server_fixture.h - the server over a fake engine, for tests that call it over HTTP.
#ifndef SERVER_FIXTURE_H
#define SERVER_FIXTURE_H

#include "server/fake_engine.h"
#include "server/http_client.h"
#include "server/server.h"

typedef struct fixture {
    fx_engine *eng;
    fxi_server *srv;
    int port;
    const char *key; // sent with each call; NULL: none
    struct fixture_log *log;
} fixture;

// opt.model_id NULL: "m"; opt.log NULL: what is logged is kept.
fixture fixture_open(fxi_server_options opt);
// The model writes Hermes' calls of tools, and reasons between <think> marks.
fixture fixture_open_hermes(void);
void fixture_close(fixture *f);
// Whether the log has this text now; soon: a request is logged when its connection has finished
// with it, maybe after its answer has arrived.
bool fixture_log_has(const fixture *f, const char *text);
bool fixture_logs(const fixture *f, const char *text);
// Replaces what follows `key` up to one of `stop` by `value`, wherever it stands.
void fixture_blank(fxi_buf *b, const char *key, const char *stop, const char *value);

// The body of the answer, with ids and times replaced by 1: {"id":"cmpl-1", .. "created":1. Fails
// the test if the status is another one. The caller frees it with fxi_buf_free.
fxi_buf fixture_post(const fixture *f, const char *path, const char *body, int status);
// The same for any method, untouched.
fxi_buf fixture_call(const fixture *f, const char *method, const char *path, const char *body,
                     int status);
// Fails the test if the body of the answer is not exactly `want`, or does not contain it.
void fixture_expect(const fixture *f, const char *path, const char *body, const char *want);
void fixture_expect_in(const fixture *f, const char *path, const char *body, int status,
                       const char *want);

#endif
