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
} fixture;

fixture fixture_open(fxi_server_options opt); // opt.model_id NULL: "m"
// The model writes Hermes' calls of tools, and reasons between <think> marks.
fixture fixture_open_hermes(void);
void fixture_close(fixture *f);

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
