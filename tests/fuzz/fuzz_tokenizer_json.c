// fuzz_tokenizer_json.c - tokenizer.json: any bytes give a vocabulary that works or a one-line
// error.
#include "fuzz_vocab_file.h"

FUZZ_TARGET(fuzz_tokenizer_json);

int fuzz_tokenizer_json_run(const uint8_t *data, size_t n_bytes)
{
    fxi_vocab_spec s;
    fx_error err = {.text = ""};
    fxi_vocab_spec_init(&s, "fuzz");
    fx_status st = fxi_vocab_read_hf((fxi_str){(const char *)data, n_bytes}, &s, &err);
    fuzz_try_spec(&s, st, &err);
    return 0;
}

bool fuzz_tokenizer_json_seed(unsigned i, fxi_buf *out)
{
    // Short ones: mutations hit their fields.
    static const char *const texts[] = {
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xE2\x96\x81\":3,\"<u>"
        "\":4},"
        "\"merges\":[\"a b\"],\"unk_token\":\"<u>\",\"fuse_unk\":true,\"ignore_merges\":false},"
        "\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,"
        "\"rstrip\":true,\"normalized\":true,\"single_word\":true}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
        "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[5]}"
        "}}}",
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],"
        "[\"\xE2\x96\x81\",-2],[\"\xE2\x96\x81"
        "a\",-1.5]]},\"pre_tokenizer\":{\"type\":"
        "\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"first\"},"
        "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}}",
        "{\"model\":{\"vocab\":{\"H\":0,\"e\":1,\"l\":2,\"ll\":3},\"merges\":[[\"l\",\"l\"]],"
        "\"unk_token\":\"H\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[^\\\\s]+|\\\\p{L}?\"},\"behavior\":"
        "\"MergedWithNext\",\"invert\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "{\"type\":\"Digits\"}]},\"decoder\":{\"type\":\"ByteLevel\"}}",
        "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"a\":1,\"##b\":2,\"\\u0000\":3}"
        ","
        "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":"
        "9},"
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"strip_accents\":null},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
        "\"BertPreTokenizer\"},"
        "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"e\"}]},"
        "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}}",
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1},\"unk_token\":\"b\"},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":"
        "{\"Regex\":\"[[:alpha:]&&[^\\\\p{Han}]x]+|(?m:[^a[^b]].)|\\\\b{,2}\\\\u0041\"},"
        "\"behavior\":"
        "\"Isolated\"},{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":"
        "\"first\"}]},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}}",
    };
    static const char *const files[] = {"plain.json",   "after_bytes.json", "fallback.json",
                                        "classes.json", "split_marks.json", "bert.json"};
    const unsigned n = sizeof texts / sizeof *texts;
    if (i < n) return fxi_buf_str(out, texts[i]);
    return i - n < sizeof files / sizeof *files && fuzz_seed_file(files[i - n], out);
}
