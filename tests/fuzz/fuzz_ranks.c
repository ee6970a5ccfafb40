// fuzz_ranks.c - rank files: any bytes give a vocabulary that works or a one-line error.
#include "fuzz_vocab_file.h"

FUZZ_TARGET(fuzz_ranks);

int fuzz_ranks_run(const uint8_t *data, size_t n_bytes)
{
    fxi_vocab_spec s;
    fx_error err = {.text = ""};
    fxi_vocab_spec_init(&s, "fuzz");
    fx_status st = fxi_vocab_read_ranks((fxi_str){(const char *)data, n_bytes}, "gpt-2", &s, &err);
    fuzz_try_spec(&s, st, &err);
    return 0;
}

bool fuzz_ranks_seed(unsigned i, fxi_buf *out)
{
    static const char *const texts[] = {
        "SGVs 0\nbA== 1\nbGw= 2\nbw== 3\n",
        "IA== 2\r\nSA== 0\r\nZQ== 1\r\n\r\nSGU= 3",
    };
    if (i < 2) return fxi_buf_str(out, texts[i]);
    return i == 2 && fuzz_seed_file("ranks.tiktoken", out);
}
