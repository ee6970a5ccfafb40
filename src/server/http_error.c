// http_error.c - two tables: what an HTTP status is called and means to a client, and which status
// an engine error becomes.
#include "server/http_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json/json.h"
#include "base/text/utf8.h"

static const struct status_row {
    int status;
    const char *reason; // of HTTP
    const char *type;
    int retry_after_s; // 0: no Retry-After
} status_rows[] = {
    {200, "OK", NULL, 0},
    {204, "No Content", NULL, 0},
    {304, "Not Modified", NULL, 0},
    {400, "Bad Request", "invalid_request_error", 0},
    {401, "Unauthorized", "authentication_error", 0},
    {403, "Forbidden", "permission_error", 0},
    {404, "Not Found", "not_found_error", 0},
    {405, "Method Not Allowed", "invalid_request_error", 0},
    {408, "Request Timeout", "invalid_request_error", 0},
    {410, "Gone", "invalid_request_error", 0},
    {413, "Content Too Large", "invalid_request_error", 0},
    {415, "Unsupported Media Type", "invalid_request_error", 0},
    {429, "Too Many Requests", "rate_limit_error", 1},
    {431, "Request Header Fields Too Large", "invalid_request_error", 0},
    {501, "Not Implemented", "not_supported_error", 0},
    {503, "Service Unavailable", "unavailable_error", 2},
    {505, "HTTP Version Not Supported", "not_supported_error", 0},
    {529, "Overloaded", "overloaded_error", 2},
    {500, "Internal Server Error", "server_error", 0}, // last: all others
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

static const struct status_row *find_status(int status)
{
    const struct status_row *r = status_rows;
    while (r->status != status && r->status != 500) r++;
    return r;
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
    return fxi_buf_str(b, "{\"error\":{\"message\":") && fxi_json_cstr(b, e->message) &&
           fxi_buf_fmt(b, ",\"type\":\"%s\",\"param\":", fxi_http_error_type(e->status)) &&
           fxi_json_cstr(b, e->param[0] ? e->param : NULL) && fxi_buf_str(b, ",\"code\":") &&
           fxi_json_cstr(b, e->code) && fxi_buf_str(b, "}}");
}

const char *fxi_http_error_type(int status)
{
    return find_status(status)->type;
}

const char *fxi_http_reason(int status)
{
    return find_status(status)->reason;
}

int fxi_http_retry_after(int status)
{
    return find_status(status)->retry_after_s;
}
