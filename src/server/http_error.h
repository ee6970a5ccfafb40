// http_error.h - what went wrong with a request, in OpenAI's words: an HTTP status, a code, the
// field at fault and one line of text; and the JSON body that tells the client.
#ifndef FXI_SERVER_HTTP_ERROR_H
#define FXI_SERVER_HTTP_ERROR_H

#include "base/text/buf.h"
#include "flexinfer/error.h"

typedef struct fxi_http_error {
    int status;       // HTTP; 0: no error
    const char *code; // static text, or NULL
    char param[64];   // the field at fault; "": none
    char message[FX_ERROR_TEXT_BYTES];
} fxi_http_error;

// Fills *e and returns false, so that a check can end in `return fxi_http_fail(...)`. code and
// param may be NULL.
__attribute__((format(printf, 5, 6))) bool fxi_http_fail(fxi_http_error *e, int status,
                                                         const char *code, const char *param,
                                                         const char *fmt, ...);
// The same for an error of the engine; param names the field to blame if the client is at fault.
bool fxi_http_fail_fx(fxi_http_error *e, const fx_error *err, const char *param);
// The same where memory is short: 503.
bool fxi_http_fail_memory(fxi_http_error *e);
// The same while the server shuts down: 503.
bool fxi_http_fail_draining(fxi_http_error *e);
// Appends {"error":{...}}. False: out of memory.
bool fxi_http_error_body(fxi_buf *b, const fxi_http_error *e);

typedef struct fxi_http_status {
    int status;
    const char *reason;    // "Not Found", for the status line
    const char *type;      // "not_found_error", as the body has it
    int retry_after_s;     // 0: no Retry-After
    const char *anthropic; // the type in Anthropic's form,
    int anthropic_status;  // and the status that it has there
} fxi_http_status;

// What a status means to a client; that of 500 for one that the server does not send.
const fxi_http_status *fxi_http_status_of(int status);

#endif
