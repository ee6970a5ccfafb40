// error.h - the one error idiom of flexinfer: a status is returned, a sentence is left beside it.
//
// Every function that can fail returns fx_status and takes an fx_error * as its last argument (may
// be NULL). On FX_OK the error is untouched. On anything else `text` holds one line, without a
// newline, that says what was wrong and where ("model.gguf: tensor 'blk.0.attn_q.weight': offset
// 123 is past the end of the file"). Nothing below the programs prints, exits or aborts.
#ifndef FLEXINFER_ERROR_H
#define FLEXINFER_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fx_status {
    FX_OK = 0,
    FX_EINVAL,    // the caller's argument is wrong (type, range, bad UTF-8): HTTP 400
    FX_ECONTEXT,  // a prompt that does not fit the context: HTTP 400 context_length_exceeded
    FX_EFORMAT,   // a file that is broken or of a kind we do not read
    FX_EIO,       // the operating system refused: open, read, mmap, socket
    FX_ENOMEM,    // no host memory
    FX_ENOSPACE,  // the KV budget is used up: a normal answer, the scheduler acts on it
    FX_EQUEUE,    // too many requests wait: HTTP 429
    FX_ECLOSED,   // the engine is shutting down: HTTP 503
    FX_EINTERNAL, // our fault: HTTP 500
    FX_N_STATUS
} fx_status;

#define FX_ERROR_TEXT_BYTES 512

typedef struct fx_error {
    fx_status status;
    char text[FX_ERROR_TEXT_BYTES]; // one line, NUL-terminated, cut (never overrun) if longer
} fx_error;

#ifdef __cplusplus
}
#endif
#endif
