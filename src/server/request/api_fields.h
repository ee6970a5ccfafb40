// api_fields.h - what the readers of a request's fields share: a row of the table of fields, the
// setters of structured fields, and the ways to refuse a value.
//
//   api_request.c -> api_fields.c (the table, run over the body)
//                 -> api_checks.c (checks between fields)
//   api_fields.c  -> api_prompt.c, api_messages.c, api_lists.c (setters)
//   all           -> api_refuse.c, json_in.c
#ifndef FXI_SERVER_API_FIELDS_H
#define FXI_SERVER_API_FIELDS_H

#include "server/request/api_request.h"

typedef struct fxi_parse { // what a field's setter works with
    fxi_params *par;
    const fxi_limits *lim;
    fxi_http_error *err;
} fxi_parse;

// A row of the table of fields: what a value must be, and what to do with it.
typedef struct fxi_field fxi_field;
struct fxi_field {
    const char *name;
    unsigned apis;  // bits 1 << fxi_api
    unsigned types; // FXI_T_*: the JSON types allowed
    double lo, hi;  // bounds: of a number, of the characters of a string, of the members of an
                    // array; lo == hi: none
    bool (*set)(fxi_parse *p, const fxi_field *f, const json_t *v);
    size_t at; // where in fxi_params, for the plain setters
};

enum {
    FXI_T_BOOL = 1,
    FXI_T_INT = 2,
    FXI_T_NUM = 4,
    FXI_T_STR = 8,
    FXI_T_ARR = 16,
    FXI_T_OBJ = 32,
    FXI_T_ABOVE = 64,     // not a type: lo itself is out of bounds
    FXI_T_REQUIRED = 128, // not a type: must be present
};

// ---- api_fields.c, api_checks.c ---------------------------------------------------------------

// Reads all known fields of p->par->root. False: *p->err says why.
bool fxi_fields_read(fxi_parse *p);
// Runs the checks that involve several fields. False: *p->err says why.
bool fxi_fields_check(fxi_parse *p);

// ---- setters ----------------------------------------------------------------------------------

bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const json_t *v);
// api_messages.c
bool fxi_set_messages(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_tools(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_kwargs(fxi_parse *p, const fxi_field *f, const json_t *v);
// api_lists.c: stop strings, ids into the fxi_id_list at f->at, logit_bias
bool fxi_set_stop(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_ids(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_bias(fxi_parse *p, const fxi_field *f, const json_t *v);
// A list of token ids, at least one; `want` says what the field must be, for the message.
bool fxi_read_ids(fxi_parse *p, const char *param, const char *want, const json_t *v,
                  fxi_id_list *out);

// ---- api_refuse.c: fill *p->err and return false ----------------------------------------------

__attribute__((format(printf, 3, 4))) bool fxi_bad_value(fxi_parse *p, const char *param,
                                                         const char *fmt, ...); // 400 invalid_value
bool fxi_bad_type(fxi_parse *p, const char *param, const char *want);           // 400 invalid_type
bool fxi_no_memory(fxi_parse *p);                                               // 503
// Bills a list before it is allocated. False: *p->err says why not.
bool fxi_bill_list(fxi_parse *p, size_t n_bytes);
// 501, which every other error outranks: kept in par->unsupported until all fields have been
// checked. Returns true, so that reading goes on.
bool fxi_not_supported(fxi_parse *p, const char *param);

// ---- json_in.c: text to JSON, within limits ---------------------------------------------------

// The body as an object, into an empty document. False: *err says why.
bool fxi_json_body(fxi_json_doc *doc, fxi_bill *bill, const char *body, size_t n_bytes,
                   fxi_http_error *err);

#endif
