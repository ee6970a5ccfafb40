// answer_impl.h - the state of an answer, and what the files that take it apart share.
#ifndef FXI_ANSWER_IMPL_H
#define FXI_ANSWER_IMPL_H

#include <stdint.h>

#include "answer/answer.h"
#include "answer/json_scan.h"
#include "base/text/buf.h"

// What a byte did to a call.
typedef enum fxi_body_step {
    FXI_BODY_MORE,  // it goes on
    FXI_BODY_DONE,  // it ends with this byte
    FXI_BODY_AGAIN, // it goes on, with the last a->n_back bytes once more
    FXI_BODY_BAD,   // it is none; the last a->n_back bytes are no part of it
    FXI_BODY_NO_MEMORY,
} fxi_body_step;

enum { FXI_NAME_BYTES = 256, FXI_VALUE_DEPTH = 64 };

typedef struct fxi_call_draft {
    fxi_call_body body;
    int step; // of its machine
    fxi_buf name, id;
    fxi_buf args; // those that wait for the name
    fxi_buf word; // what is being read: a key, a mark, a value
    fxi_buf key;  // TAGS: of the value that is being read
    bool begun;   // FXI_ANSWER_CALL has been emitted
    bool has_args, escaped, is_first;
    bool wants_name, wants_args; // OBJECT: what the next value is
    fxi_param_kind kind;         // TAGS: of the value,
    bool in_json;                // which is a JSON value so far, and goes on
    fxi_json_scan scan;
    char quote;           // PYTHON: of the string
    uint8_t n_hex, depth; // PYTHON
    char level[FXI_VALUE_DEPTH];
    bool comma; // PYTHON: a comma waits for what follows it
} fxi_call_draft;

struct fxi_answer {
    fxi_answer_spec spec;
    int state;
    bool channels;     // harmony
    bool ending;       // there are no more bytes
    bool bare;         // the section was opened without a mark
    bool in_list;      // the calls stand in a list
    bool trim;         // white space that comes now is not emitted
    bool has_called;   // a call is complete
    bool has_reasoned; // reasoning has closed: text may come between marks of its own,
    bool in_marks;     // and it does
    unsigned begun;    // harmony: states of messages that have begun, as bits
    fxi_buf in;        // bytes that are not decided yet, and those behind them
    size_t from;       // where what is being decided begins; all before it is emitted
    size_t mark;       // where a mark may have begun; from <= mark <= at
    size_t at;         // the next byte
    size_t emitted;    // of a call: all before it has been
    size_t n_back;
    fxi_buf space;        // white space that waits for what follows it
    fxi_answer_kind kind; // of `out`
    fxi_buf out;          // to be emitted at the end of the bytes at hand
    fxi_answer_fn fn;
    void *ud;
    fxi_call_draft call;
};

static inline bool fxi_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline fxi_body_step fxi_body_bad(fxi_answer *a, size_t n_back)
{
    a->n_back = n_back;
    return FXI_BODY_BAD;
}

// ---- answer_emit.c: events; false: out of memory ------------------------------------------------

bool fxi_emit_bytes(fxi_answer *a, fxi_answer_kind kind, const char *p,
                    size_t n); // TEXT, REASONING, ARGS
// A byte of text or reasoning; white space waits.
bool fxi_emit_byte(fxi_answer *a, fxi_answer_kind kind, char c);
bool fxi_emit_flush(fxi_answer *a);
// The call's name is known, and its arguments begin.
fxi_body_step fxi_emit_call(fxi_answer *a);
// Arguments of the call: emitted, or kept until its name is known.
bool fxi_emit_args(fxi_answer *a, const char *p, size_t n);
bool fxi_emit_done(fxi_answer *a);

// ---- bodies -------------------------------------------------------------------------------------

// An empty call; what was read of the one before is forgotten.
void fxi_call_begin(fxi_call_draft *d, fxi_call_body body);
void fxi_call_free(fxi_call_draft *d);
fxi_body_step fxi_call_object(fxi_answer *a, char c);
fxi_body_step fxi_call_head(fxi_answer *a, char c);
fxi_body_step fxi_call_tags(fxi_answer *a, char c);
fxi_body_step fxi_call_python(fxi_answer *a, char c);
// HEAD: as if the name had been read.
void fxi_call_head_named(fxi_call_draft *d);

// ---- call_read.c: what the bodies share ---------------------------------------------------------

// Takes a byte of JSON that is an object: the call's arguments.
fxi_body_step fxi_read_args(fxi_answer *a, char c);
// Reads into d->word until one of marks[0..max) has been read, which is cut off. *which: its
// number, or -1: not yet. BAD where there are more than FXI_NAME_BYTES.
fxi_body_step fxi_read_until(fxi_answer *a, char c, const char *const *marks, size_t max,
                             int *which);
// Reads one of marks[0..max), after white space. BAD at what begins none.
fxi_body_step fxi_read_mark(fxi_answer *a, char c, const char *const *marks, size_t max,
                            int *which);
// d->name = d->word, without white space around it. BAD: it is no name.
fxi_body_step fxi_take_name(fxi_answer *a);

#endif
