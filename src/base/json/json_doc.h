// json_doc.h - JSON text as a tree of jansson's values in memory of its own, given back to the
// system as a whole.
//
// jansson (2.14) neither reports nor survives every allocation that fails while it parses: it may
// call the text broken, cut a string off, free memory twice or stop the process. So while a text is
// parsed here, jansson takes its memory from the document, and where that cannot grow, the parse is
// left at once: jansson never sees a failure, and what it had built goes with the document.
//
// jansson has one pair of allocation functions for the process. The first parse wraps the pair, and
// during a parse the wrapper serves the parsing thread from its document; all else goes where it
// went before. A program that sets functions of its own does so before the first parse.
#ifndef FXI_BASE_JSON_DOC_H
#define FXI_BASE_JSON_DOC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct fxi_json_doc { // all zero: empty
    // Lives as long as the document, which holds the only reference to it: references that others
    // take must be dropped before. Values are not changed.
    json_t *root;
    struct fxi_json_block *block; // memory, newest first
    char *at, *end;               // what is left of the newest
    size_t held_bytes;            // of all blocks
} fxi_json_doc;

typedef struct fxi_json_room {
    bool (*take)(void *ud, size_t n_bytes); // before n_bytes more are taken; false: they must not
    void (*give)(void *ud, size_t n_bytes); // after n_bytes have been given back during the parse
    void *ud;
} fxi_json_room;

typedef enum fxi_json_status {
    FXI_JSON_OK,
    FXI_JSON_BROKEN,    // *e says where and why
    FXI_JSON_NO_ROOM,   // `room` says no
    FXI_JSON_NO_MEMORY, // the system has none
} fxi_json_status;

// Parses text[0..n) as json_loadb does with these flags into an empty document. room: NULL: no
// limit. Free with fxi_json_doc_free in any case; held_bytes is what `room` still counts. Any
// thread.
fxi_json_status fxi_json_doc_parse(fxi_json_doc *d, const char *text, size_t n, size_t flags,
                                   const fxi_json_room *room, json_error_t *e);
void fxi_json_doc_free(fxi_json_doc *d); // empty again

// A copy of a value on the heap, with nothing of its document; NULL: out of memory, or v is NULL.
json_t *fxi_json_copy(const json_t *v);

#endif
