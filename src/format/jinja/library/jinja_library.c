// jinja_library.c - the library of chat templates: combines the tables.
#include "format/jinja/library/jinja_library.h"

static const fxi_jroutine no_rows[] = {{.name = NULL}};

// `others` are Python's methods that are not supported: no published template calls them.
static const fxi_jmethods methods[FXI_JVAL_N_TYPE] = {
    [FXI_JVAL_STR] = {fxi_jlibrary_str_methods,
                      " casefold center count encode expandtabs format format_map index isalnum "
                      "isalpha isascii isdecimal isdigit isidentifier islower isnumeric "
                      "isprintable isspace istitle isupper ljust maketrans partition rfind rindex "
                      "rjust rpartition swapcase translate zfill "},
    [FXI_JVAL_DICT] = {fxi_jlibrary_dict_methods,
                       " clear copy fromkeys pop popitem setdefault update "},
    [FXI_JVAL_LIST] = {no_rows,
                       " append clear copy count extend index insert pop remove reverse sort "},
    [FXI_JVAL_TUPLE] = {no_rows, " count index "},
};

const fxi_jlibrary fxi_jlibrary_chat = {
    .filters = {fxi_jlibrary_filters, fxi_jlibrary_seq_filters, fxi_jlibrary_sort_filters},
    .tests = fxi_jlibrary_tests,
    .functions = fxi_jlibrary_functions,
    .methods = methods,
};
