// fuzz_hf_index.c - any bytes as a model.safetensors.index.json: the files that it lists are plain
// names, each once, in order.
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_files.h"
#include "fuzz.h"

FUZZ_TARGET(fuzz_hf_index);

int fuzz_hf_index_run(const uint8_t *data, size_t n_bytes)
{
    static const fxi_json_rules rules = {.unique = true, .reals = true};
    fxi_json_doc doc = {0};
    fxi_members index;
    fx_error err = {0};
    const char **name = NULL;
    size_t n = 0;
    fx_status st = fxi_members_parse((fxi_str){(const char *)data, n_bytes}, &rules, false, "fuzz",
                                     &doc, &index, &err);
    if (st == FX_OK) st = fxi_hf_index_names(&index, &name, &n, &err);
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(*name[i] && *name[i] != '.' && !strchr(name[i], '/') && strlen(name[i]) < 256);
        FUZZ_CHECK(!i || strcmp(name[i - 1], name[i]) < 0);
    }
    free(name);
    FUZZ_CHECK(st == FX_OK || (st == FX_EFORMAT && !strncmp(err.text, "fuzz: ", 6)));
    for (const char *c = err.text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
    fxi_json_doc_free(&doc);
    return 0;
}

bool fuzz_hf_index_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "{\"metadata\": {\"total_size\": 12}, \"weight_map\": {\"a\": \"m-1.safetensors\", \"b\": "
        "\"m-2.safetensors\", \"c\": \"m-1.safetensors\"}}",
        "{\"weight_map\": {\"a\": \"../x\"}}",
    };
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
