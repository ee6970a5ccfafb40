// json_doc.h - JSON texts and files as documents, for tests. root is NULL where they are not JSON.
#ifndef TESTS_JSON_DOC_H
#define TESTS_JSON_DOC_H

#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/system/regions.h"

static inline fxi_json_doc json_doc_sized(const char *text, size_t n)
{
    static const fxi_json_rules rules = {.nul_texts = true, .nul_keys = true};
    fxi_json_doc d = {0};
    (void)fxi_json_parse(&d, (fxi_str){text, n}, &rules, NULL);
    return d;
}

static inline fxi_json_doc json_doc_of(const char *text)
{
    return json_doc_sized(text, strlen(text));
}

static inline fxi_json_doc json_doc_file(const char *path)
{
    fxi_mapping file = {0};
    fxi_json_doc d = {0};
    if (fxi_mapping_open(path, &file, NULL) == FX_OK)
        d = json_doc_sized((const char *)file.data, file.size_bytes);
    fxi_mapping_close(&file);
    return d;
}

// The caller frees the text.
static inline char *json_text_of(const fxi_json *v)
{
    fxi_buf b = {0};
    (void)fxi_json_value(&b, v);
    return b.p;
}

#endif
