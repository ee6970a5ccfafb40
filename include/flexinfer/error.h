// error.h - the error convention of flexinfer: a status is returned, with a line of text.
//
// Every public function that can fail returns fx_status and takes an fx_error *, which may be NULL,
// as its last argument. On FX_OK the error is unchanged. On any other status `text` holds one line,
// without a newline, that says what is wrong and where ("model.gguf: tensor 'blk.0.attn_q.weight':
// offset 123 is past the end of the file"). Libraries never print, exit or abort.
#ifndef FLEXINFER_ERROR_H
#define FLEXINFER_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fx_status {
    FX_OK = 0,
    FX_EINVAL,    // an argument is wrong (type, range, invalid UTF-8): HTTP 400
    FX_ECONTEXT,  // a prompt that does not fit the context: HTTP 400 context_length_exceeded
    FX_EFORMAT,   // a file is broken or unsupported
    FX_EIO,       // the operating system failed: open, read, mmap, socket
    FX_ENOMEM,    // no host memory
    FX_ENOSPACE,  // the KV budget does not suffice; inside the engine the scheduler acts on it
    FX_EQUEUE,    // too many requests are waiting: HTTP 429
    FX_ECLOSED,   // the engine is shutting down: HTTP 503
    FX_EINTERNAL, // a bug, or a thread that could not be started: HTTP 500
    FX_N_STATUS
} fx_status;

#define FX_ERROR_TEXT_BYTES 512

typedef struct fx_error {
    fx_status status;
    char text[FX_ERROR_TEXT_BYTES]; // one line, NUL-terminated, truncated if longer
} fx_error;

#ifdef __cplusplus
}
#endif
#endif
