// json_cases.h - what tests of recorded vectors read from JSON files: cases, and lists of tokens.
#ifndef TESTS_JSON_CASES_H
#define TESTS_JSON_CASES_H

#include "unit/cmocka_all.h"

#include "json_doc.h"

// Calls `check` with each of the file's "cases", of which there are at least so many.
static inline void json_each_case(const char *path, size_t least, void (*check)(const fxi_json *c))
{
    fxi_json_doc doc = json_doc_file(path);
    const fxi_json *cases = fxi_json_get(doc.root, "cases");
    if (fxi_json_array_size(cases) < least) fail_msg("%s: too few cases", path);
    for (size_t i = 0; i < fxi_json_array_size(cases); i++) check(fxi_json_at(cases, i));
    fxi_json_doc_free(&doc);
}

// Reads a list of 1 to `most` tokens. Returns how many it has.
static inline int json_read_tokens(const fxi_json *list, int32_t *tok, int most)
{
    const int n = (int)fxi_json_array_size(list);
    assert_in_range(n, 1, most);
    for (int i = 0; i < n; i++) tok[i] = (int32_t)fxi_json_int(fxi_json_at(list, (size_t)i));
    return n;
}

#endif
