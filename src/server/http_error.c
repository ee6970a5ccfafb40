// http_error.c - two tables: what an HTTP status is called and means to a client, and which status
// an engine error becomes.
#include "server/http_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json/json.h"
#include "base/text/utf8.h"

static const fxi_http_status statuses[] = {
    {200, "OK", NULL, 0, NULL, 200},
    {204, "No Content", NULL, 0, NULL, 204},
    {304, "Not Modified", NULL, 0, NULL, 304},
    {400, "Bad Request", "invalid_request_error", 0, "invalid_request_error", 400},
    {401, "Unauthorized", "authentication_error", 0, "authentication_error", 401},
    {403, "Forbidden", "permission_error", 0, "permission_error", 403},
    {404, "Not Found", "not_found_error", 0, "not_found_error", 404},
    {405, "Method Not Allowed", "invalid_request_error", 0, "invalid_request_error", 405},
    {408, "Request Timeout", "invalid_request_error", 0, "invalid_request_error", 408},
    {410, "Gone", "invalid_request_error", 0, "invalid_request_error", 410},
    {413, "Content Too Large", "invalid_request_error", 0, "request_too_large", 413},
    {415, "Unsupported Media Type", "invalid_request_error", 0, "invalid_request_error", 415},
    {429, "Too Many Requests", "rate_limit_error", 1, "rate_limit_error", 429},
    {431, "Request Header Fields Too Large", "invalid_request_error", 0, "invalid_request_error",
     431},
    {501, "Not Implemented", "not_supported_error", 0, "not_supported_error", 501},
    {503, "Service Unavailable", "unavailable_error", 2, "overloaded_error", 529},
    {505, "HTTP Version Not Supported", "not_supported_error", 0, "invalid_request_error", 505},
    {529, "Overloaded", "overloaded_error", 2, "invalid_request_error", 529},
    {500, "Internal Server Error", "server_error", 0, "api_error", 500}, // last: all others
};

static const struct engine_row {
    fx_status engine;
    int status;
    const char *code;
    bool client; // the client is at fault: name the field
} engine_rows[] = {
    {FX_EINVAL, 400, "invalid_value", true},
    {FX_ECONTEXT, 400, "context_length_exceeded", true},
    {FX_EQUEUE, 429, "queue_full", false},
    {FX_ECLOSED, 503, "draining", false},
    {FX_ENOSPACE, 400, "kv_budget_exceeded", true},
    {FX_ENOMEM, 503, "overloaded", false},
    {FX_EFORMAT, 400, "unsupported_chat_template", false}, // at a request: of the template
    {FX_OK, 500, NULL, false},                             // last: all others
};

const fxi_http_status *fxi_http_status_of(int status)
{
    const fxi_http_status *s = statuses;
    while (s->status != status && s->status != 500) s++;
    return s;
}

bool fxi_http_fail(fxi_http_error *e, int status, const char *code, const char *param,
                   const char *fmt, ...)
{
    va_list ap;
    e->status = status;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%.*s",
             FXI_UTF8_HEAD(param ? param : "", (int)sizeof e->param - 1));
    va_start(ap, fmt);
    fxi_utf8_vprint(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return false;
}

bool fxi_http_fail_fx(fxi_http_error *e, const fx_error *err, const char *param)
{
    const struct engine_row *r = engine_rows;
    while (r->engine != err->status && r->engine != FX_OK) r++;
    return fxi_http_fail(e, r->status, r->code, r->client ? param : NULL, "%s", err->text);
}

bool fxi_http_fail_memory(fxi_http_error *e)
{
    return fxi_http_fail(e, 503, "overloaded", NULL, "out of memory");
}

bool fxi_http_fail_draining(fxi_http_error *e)
{
    return fxi_http_fail(e, 503, "draining", NULL, "the server is shutting down");
}

bool fxi_http_error_body(fxi_buf *b, const fxi_http_error *e)
{
    return fxi_json_fmt(b, "{'error':{'message':%q,'type':%q,'param':%q,'code':%q}}", e->message,
                        fxi_http_status_of(e->status)->type, e->param[0] ? e->param : NULL,
                        e->code);
}
