// members.h - the members of an object in a JSON file, by name and type.
//
// An error names the file and the place in it: "tokenizer.json: model.merges[7]: not two pieces".
// The typed readers leave *out untouched where the member is absent or null and `must` is not set;
// a wrong type or range is FX_EFORMAT.
#ifndef FXI_FORMAT_MEMBERS_H
#define FXI_FORMAT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/json/json.h"

typedef struct fxi_members {
    const fxi_json *root;    // the object; NULL: there is none
    const fxi_json *presets; // members that count where root has none; NULL: none
    const char *file;        // its name; not owned
    char path[96];           // of the object in the file; "": it is the whole; cut if very long
    fx_error *err;           // gets the errors of the functions below
} fxi_members;

// Parses a file's text, an object or, if `may_be_list`, an array. The caller frees *doc, on errors
// too. Errors: FX_EFORMAT (line and cause, or another type), FX_ENOMEM.
fx_status fxi_members_parse(fxi_str text, const fxi_json_rules *rules, bool may_be_list,
                            const char *file, fxi_json_doc *doc, fxi_members *out, fx_error *err);

// The member that is an object: "PATH.key". Its root is NULL if there is none.
fxi_members fxi_members_part(const fxi_members *m, const char *key);
// Element i of the list under `key`, or (NULL) of the list at the path itself: "PATH.key[i]".
fxi_members fxi_members_item(const fxi_members *m, const char *key, size_t i, const fxi_json *item);

const fxi_json *fxi_members_get(const fxi_members *m, const char *key); // NULL: absent or null
fx_status fxi_members_u32(const fxi_members *m, const char *key, bool must, uint32_t *out);
fx_status fxi_members_f64(const fxi_members *m, const char *key, bool must, double *out);
fx_status fxi_members_bool(const fxi_members *m, const char *key, bool *out);
fx_status fxi_members_str(const fxi_members *m, const char *key, bool must, fxi_str *out);
fx_status fxi_members_array(const fxi_members *m, const char *key, const fxi_json **out); // must be

// FX_EFORMAT: "FILE: PATH.key: ...", or (key NULL) "FILE: PATH: ...".
__attribute__((format(printf, 3, 4))) fx_status fxi_members_fail(const fxi_members *m,
                                                                 const char *key, const char *fmt,
                                                                 ...);

#endif
