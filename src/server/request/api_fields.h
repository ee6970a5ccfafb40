// api_fields.h - what the readers of a request's fields share: a row of the table of fields, the
// setters, and the ways to refuse a value.
//
//   api_request.c   runs the table over the body, then checks between fields
//   api_refuse.c    refusals
//   api_tools.c     which tools the answer may call
//   api_table.c     the table
//   api_set.c, api_form.c   its setters
//   json_in.c       texts to JSON, within limits
#ifndef FXI_SERVER_API_FIELDS_H
#define FXI_SERVER_API_FIELDS_H

#include "server/request/api_request.h"

typedef struct fxi_parse { // what a field's setter works with
    fxi_params *par;
    const fxi_limits *lim;
    fxi_http_error *err;
} fxi_parse;

// A row of the table of fields: what a value must be, what to do with it, and what it means. The
// same rows become the schema at /openapi.json.
typedef struct fxi_field fxi_field;
typedef bool fxi_setter(fxi_parse *p, const fxi_field *f, const fxi_json *v);
struct fxi_field {
    const char *name;
    unsigned apis;   // bits 1 << fxi_api
    unsigned types;  // FXI_T_*: the JSON types allowed
    double lo, hi;   // bounds: of a number, of the characters of a string, of the members of an
                     // array; lo == hi: none
    fxi_setter *set; // NULL: it is ignored, or read by what makes a chat of another API's request
    size_t at; // where in fxi_params, for the plain setters; of fxi_set_guided the fx_part_kind
    const char *about;
    const char *preset; // the value by default, as JSON; NULL: none
    const char *words;  // " a b ": what a string may be; NULL: anything
    const char *shape;  // its JSON schema, as fxi_json_fmt takes it, where types and bounds do not
                        // say all; NULL: they do
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

#define FXI_NO_MAX 1e300 // as `hi`: there is only a least value

// ---- api_table.c ------------------------------------------------------------------------------

// The rows, one per field and meaning; and those inside of `stream_options`.
const fxi_field *fxi_field_rows(size_t *n);
const fxi_field *fxi_stream_field_rows(size_t *n);

// api_set.c: writes p->par->chat. False: *p->err says why.
bool fxi_chat_write(fxi_parse *p);

// ---- setters ----------------------------------------------------------------------------------

// api_set.c: one value into the member at f->at: int64_t, int, float (above 0 where FXI_T_ABOVE
// says so), bool, const char *, const fxi_json *.
fxi_setter fxi_set_integer, fxi_set_int, fxi_set_float, fxi_set_bool, fxi_set_text, fxi_set_json;
// Members that have a form of their own; ids go into the fxi_id_list at f->at.
fxi_setter fxi_set_seed, fxi_set_model, fxi_set_early_stop, fxi_set_tool_choice, fxi_set_encoding,
    fxi_set_suffix, fxi_set_prompt, fxi_set_messages, fxi_set_tools, fxi_set_kwargs, fxi_set_stop,
    fxi_set_bad_words, fxi_set_breakers, fxi_set_ids, fxi_set_bias;
// For what is not supported: every value but the neutral one is refused.
fxi_setter fxi_only_neutral, fxi_only_absent, fxi_only_free_choice;
// api_form.c: what the answer must look like; the last is the `text` of /v1/responses.
fxi_setter fxi_set_response_format, fxi_set_structured_outputs, fxi_set_guided, fxi_set_text_format;
// dialect.c, messages_in.c: fields of other APIs
fxi_setter fxi_set_messages_choice, fxi_set_reasoning, fxi_set_thinking;

// Other APIs' requests as chats.
bool fxi_responses_convert(fxi_parse *p);
bool fxi_messages_convert(fxi_parse *p);
// scores_in.c: texts that are compared become prompts
bool fxi_scores_convert(fxi_parse *p);
// reasoning_effort and the like become variables of the template, beside the client's own.
bool fxi_variables_convert(fxi_parse *p);
// api_form.c: that there are tools for what tool_choice wants
bool fxi_tools_check(fxi_parse *p);

// ---- api_refuse.c: refusals --------------------------------------------------------------------

// Where a value stands, for `param`: "input[2].content".
typedef struct fxi_place {
    char text[64];
} fxi_place;

__attribute__((format(printf, 1, 2))) fxi_place fxi_place_at(const char *fmt, ...);
__attribute__((format(printf, 3, 4))) bool fxi_bad_value(fxi_parse *p, const char *param,
                                                         const char *fmt, ...); // 400 invalid_value
bool fxi_bad_type(fxi_parse *p, const char *param, const char *want);           // 400 invalid_type
bool fxi_no_memory(fxi_parse *p);                                               // 503
// Charges a list before it is allocated. False: *p->err says why not.
bool fxi_charge_list(fxi_parse *p, size_t n_bytes);
// 400 unsupported_parameter, which every other error outranks: kept in par->unsupported until all
// fields have been checked. Returns true, so that reading goes on. why: "not supported: reason".
bool fxi_not_supported(fxi_parse *p, const char *param, const char *why);
bool fxi_part_not_supported(fxi_parse *p, const char *param, const char *type); // of a message

// ---- json_in.c: text to JSON, within limits ---------------------------------------------------

// The body as an object, into an empty document. False: *err says why.
bool fxi_json_body(fxi_json_doc *doc, fxi_charge *charge, const char *body, size_t n_bytes,
                   fxi_http_error *err);
// The same for any value that the text of a field spells; field NULL: of the body.
bool fxi_json_field(fxi_json_doc *doc, fxi_charge *charge, const char *field, fxi_str text,
                    fxi_http_error *err);

// ---- tool_grammar.c ---------------------------------------------------------------------------

// Whether the format can say every call of this tool; *why: a line about what it cannot, in a
// buffer of n bytes. `strict`: its arguments must follow its schema.
bool fxi_tool_is_sayable(const fxi_call_format *calls, const fxi_json *tool, bool strict, char *why,
                         size_t n);

// ---- api_tools.c ------------------------------------------------------------------------------

bool fxi_tool_is_strict(const fxi_json *tool);

#endif
