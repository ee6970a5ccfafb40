// Readers of tokenizer.json and tokenizer_config.json: valid files, and the error line for each
// broken one.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/read/vocab_read.h"
#include "unit/cmocka_all.h"

#define COUNT(list) (sizeof list / sizeof *list)
#define MARK        "\xE2\x96\x81"

// The members of a file; NULL: as in a small valid one.
typedef struct parts {
    const char *model, *added, *normalizer, *pre, *decoder, *post, *more;
} parts;

#define FUSE "{'type':'Fuse'}"
#define BPE  "{'type':'BPE','vocab':{'a':0,'b':1,'ab':2,'<u>':3},'merges':['a b'],'unk_token':'<u>'}"

static fxi_vocab_spec s; // what was read last

// JSON with ' for ", for readability.
static fx_status read_json(const char *text, fx_error *err)
{
    fxi_buf b = {0};
    fxi_vocab_spec_free(&s);
    assert_true(fxi_buf_str(&b, text));
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] == '\'') b.p[i] = '"';
    fxi_vocab_spec_init(&s, "t.json");
    fx_status st = fxi_vocab_read_hf((fxi_str){b.p, b.n}, &s, err);
    fxi_buf_free(&b);
    return st;
}

static const char *or_else(const char *text, const char *usual)
{
    return text ? text : usual;
}

static fx_status read_parts(const parts *p, fx_error *err)
{
    fxi_buf b = {0};
    assert_true(
        fxi_buf_fmt(&b,
                    "{'model':%s,'added_tokens':%s,'normalizer':%s,'pre_tokenizer':%s,'decoder':%s,"
                    "'post_processor':%s%s}",
                    or_else(p->model, BPE), or_else(p->added, "[]"), or_else(p->normalizer, "null"),
                    or_else(p->pre, "null"), or_else(p->decoder, FUSE), or_else(p->post, "null"),
                    or_else(p->more, "")));
    fx_status st = read_json(b.p, err);
    fxi_buf_free(&b);
    return st;
}

static void must_read(const parts *p)
{
    fx_error err;
    if (read_parts(p, &err) != FX_OK) fail_msg("%s", err.text);
}

//
// Valid files
//

FX_TEST(test_bpe)
{
    must_read(&(parts){0});
    assert_int_equal(s.kind, FXI_VOCAB_MERGES);
    assert_int_equal(s.n_tok, 4);
    assert_true(fxi_str_is(s.tok[2].piece, "ab"));
    assert_int_equal(s.n_merge, 1);
    assert_int_equal(s.merge[0].left, 0);
    assert_int_equal(s.merge[0].right, 1);
    assert_int_equal(s.merge[0].to, 2);
    assert_int_equal(s.unk, 3);
    assert_int_equal(s.bos, -1);
    assert_false(s.adds_bos || s.adds_eos || s.strips_space || s.whole_words || s.fuse_unknown);
}

// A piece that contains a space: the cut whose parts are pieces.
FX_TEST(test_merges_with_spaces)
{
    must_read(&(parts){.model = "{'vocab':{' ':0,'  ':1,'    ':2},'merges':['   ','     ']}"});
    assert_int_equal(s.n_merge, 2);
    assert_int_equal(s.merge[0].to, 1);
    assert_true(s.merge[1].left == 1 && s.merge[1].right == 1 && s.merge[1].to == 2);
}

FX_TEST(test_merges_as_pairs)
{
    must_read(&(parts){.model = "{'vocab':{'a':0,' b':1,'a b':2},'merges':['#version: 0.2',"
                                "['a',' b']]}"});
    assert_int_equal(s.n_merge, 1);
    assert_int_equal(s.merge[0].to, 2);
}

// A NUL in a piece: keys are byte strings.
FX_TEST(test_nul_in_a_piece)
{
    static const char *const models[] = {
        "{'type':'BPE','vocab':{'a':0,'\\u0000':1,'a\\u0000':2},'merges':['a \\u0000']}",
        // What could stand for it is in the file already; nor does an escaped backslash make one.
        "{'type':'BPE','vocab':{'a':0,'\\u0000':1,'a\\u0000':2,'\uE000':3,'\\ue001':4,"
        "'\\\\u0000':5},'merges':[['a','\\u0000']]}",
    };
    for (size_t i = 0; i < COUNT(models); i++) {
        must_read(&(parts){.model = models[i]});
        assert_int_equal(s.tok[1].piece.n, 1);
        assert_memory_equal(s.tok[1].piece.p, "", 1);
        assert_int_equal(s.tok[2].piece.n, 2);
        assert_memory_equal(s.tok[2].piece.p, "a", 2);
        assert_int_equal(s.n_merge, 1);
        assert_int_equal(s.merge[0].to, 2);
        if (i) {
            assert_true(fxi_str_is(s.tok[3].piece, "\uE000"));
            assert_true(fxi_str_is(s.tok[4].piece, "\uE001"));
            assert_true(fxi_str_is(s.tok[5].piece, "\\u0000"));
        }
    }
}

// Ids between used ones are unused tokens.
FX_TEST(test_gap_in_ids)
{
    must_read(&(parts){.model = "{'type':'BPE','vocab':{'a':0,'b':3},'merges':[]}",
                       .added = "[{'id':6,'content':'<x>','special':true},"
                                "{'id':5,'content':'','special':true}]"});
    assert_int_equal(s.n_tok, 7);
    static const fxi_token_type types[] = {
        FXI_TOKEN_NORMAL, FXI_TOKEN_UNUSED, FXI_TOKEN_UNUSED,  FXI_TOKEN_NORMAL,
        FXI_TOKEN_UNUSED, FXI_TOKEN_UNUSED, FXI_TOKEN_CONTROL,
    };
    for (size_t i = 0; i < COUNT(types); i++) assert_int_equal(s.tok[i].type, types[i]);
}

FX_TEST(test_unigram)
{
    must_read(&(parts){.model = "{'type':'Unigram','unk_id':0,'byte_fallback':true,'vocab':"
                                "[['<unk>',0],['a',-1.5],['<0x41>',-9],['<0x4a>',-9]]}",
                       .decoder = "{'type':'Sequence','decoders':[{'type':'ByteFallback'},"
                                  "{'type':'Fuse'}]}"});
    assert_int_equal(s.kind, FXI_VOCAB_UNIGRAM);
    assert_true(s.byte_fallback && s.fuse_unknown);
    assert_int_equal(s.unk, 0);
    assert_true(s.tok[1].score == -1.5);
    assert_int_equal(s.tok[2].type, FXI_TOKEN_BYTE);
    assert_int_equal(s.tok[3].type, FXI_TOKEN_NORMAL); // byte tokens have capital digits
}

FX_TEST(test_words)
{
    static const struct {
        const char *model, *inside;
        size_t max_word;
        int32_t unk;
    } cases[] = {
        {"{'type':'WordPiece','vocab':{'a':0,'[UNK]':1},'unk_token':'[UNK]'}", "##", 100, 1},
        {"{'vocab':{'a':0},'unk_token':'?','max_input_chars_per_word':7,"
         "'continuing_subword_prefix':''}",
         "", 7, -1},
        {"{'type':'WordLevel','vocab':{'a':0,'b':1},'unk_token':'b'}", NULL, 0, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        must_read(&(parts){.model = cases[i].model,
                           .normalizer = "{'type':'BertNormalizer','lowercase':false}",
                           .pre = "{'type':'BertPreTokenizer'}",
                           .decoder = "{'type':'WordPiece','prefix':'@','cleanup':false}",
                           .more = ",'truncation':{'max_length':8},'padding':{}"});
        assert_int_equal(s.kind, FXI_VOCAB_WORDS);
        assert_true(!s.inside.p == !cases[i].inside);
        if (cases[i].inside) assert_true(fxi_str_is(s.inside, cases[i].inside));
        assert_int_equal(s.max_word, cases[i].max_word);
        assert_int_equal(s.unk, cases[i].unk);
        assert_int_equal(s.n_norm, 2); // accents go with the case
        assert_int_equal(s.n_split, 2);
        assert_int_equal(s.join, FXI_JOIN_WORDS);
        assert_true(fxi_str_is(s.join_inside, "@") && !s.tidies);
    }
}

FX_TEST(test_metaspace_behind_a_cut)
{
    static const char step[] = "{'type':'Metaspace','replacement':'" MARK "','split':false}";
    char pre[256];
    snprintf(pre, sizeof pre, "{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'},%s]}",
             step);
    must_read(&(parts){.pre = pre, .decoder = step});
    assert_int_equal(s.n_norm, 0);
    assert_int_equal(s.n_split, 3);
    assert_int_equal(s.split[1].how, FXI_SPLIT_CHANGE);
    assert_int_equal(s.split[1].change.kind, FXI_NORM_REPLACE);
    assert_int_equal(s.split[2].change.kind, FXI_NORM_PREPEND_OTHER);
}

FX_TEST(test_added_tokens)
{
    must_read(&(parts){.added = "[{'id':3,'content':'<u>','special':true},"
                                "{'id':4,'content':'<x>','lstrip':true,'rstrip':true},"
                                "{'id':5,'content':'y','single_word':true,'normalized':false}]"});
    assert_int_equal(s.n_tok, 6);
    assert_int_equal(s.tok[3].type, FXI_TOKEN_CONTROL);
    assert_false(s.tok[3].normalized);
    assert_int_equal(s.tok[4].type, FXI_TOKEN_USER);
    assert_true(s.tok[4].eats_left && s.tok[4].eats_right && s.tok[4].normalized);
    assert_true(s.tok[5].whole_word && !s.tok[5].normalized);
}

static void expect_norm(size_t i, fxi_norm_kind kind, const char *from, const char *to, bool late)
{
    assert_true(i < s.n_norm);
    assert_int_equal(s.norm[i].kind, kind);
    assert_true(fxi_str_is(s.norm[i].from, from));
    assert_true(fxi_str_is(s.norm[i].to, to));
    assert_int_equal(s.norm[i].late, late);
}

FX_TEST(test_norms)
{
    must_read(&(parts){.normalizer =
                           "{'type':'Sequence','normalizers':[{'type':'NFKC'},{'type':'Sequence',"
                           "'normalizers':[{'type':'Lowercase'}]},{'type':'Prepend','prepend':'x'},"
                           "{'type':'Replace','pattern':{'String':'.'},'content':'!'},"
                           "{'type':'Replace','pattern':{'Regex':'\\\\s+$'},'content':''},"
                           "{'type':'Strip','strip_left':true,'strip_right':false},"
                           "{'type':'Precompiled','precompiled_charsmap':'QUJD'}]}"});
    assert_int_equal(s.n_norm, 7);
    expect_norm(0, FXI_NORM_NFKC, "", "", false);
    expect_norm(1, FXI_NORM_LOWERCASE, "", "", false);
    expect_norm(2, FXI_NORM_PREPEND, "", "x", false);
    expect_norm(3, FXI_NORM_REPLACE, ".", "!", false);
    expect_norm(4, FXI_NORM_REPLACE_REGEX, "(?m)\\p{White_Space}+$", "", false);
    expect_norm(5, FXI_NORM_STRIP_LEFT, "", "", false);
    expect_norm(6, FXI_NORM_CHARSMAP, "ABC", "", false);
}

static void expect_split(size_t i, const char *pattern, fxi_split_how how, bool invert)
{
    assert_true(i < s.n_split);
    if (!fxi_str_is(s.split[i].pattern, pattern))
        print_message("%.*s\n", (int)s.split[i].pattern.n, s.split[i].pattern.p);
    assert_true(fxi_str_is(s.split[i].pattern, pattern));
    assert_int_equal(s.split[i].how, how);
    assert_int_equal(s.split[i].invert, invert);
}

FX_TEST(test_metaspace)
{
    static const struct {
        const char *scheme;
        int kind; // -1: nothing in front
        bool strips;
    } schemes[] = {
        {"'prepend_scheme':'always'", FXI_NORM_PREPEND_OTHER, true},
        {"'prepend_scheme':'first'", FXI_NORM_PREPEND_FIRST, true},
        {"'prepend_scheme':'never'", -1, false},
        {"'add_prefix_space':true", FXI_NORM_PREPEND_OTHER, true},
        {"'add_prefix_space':false", -1, false},
    };
    for (size_t i = 0; i < COUNT(schemes); i++) {
        char step[128];
        snprintf(step, sizeof step, "{'type':'Metaspace','replacement':'" MARK "',%s}",
                 schemes[i].scheme);
        must_read(&(parts){.pre = step, .decoder = step});
        assert_int_equal(s.spelling, FXI_SPELL_MARKS);
        assert_int_equal(s.n_norm, schemes[i].kind < 0 ? 1 : 2);
        expect_norm(0, FXI_NORM_REPLACE, " ", MARK, true);
        if (schemes[i].kind >= 0) expect_norm(1, (fxi_norm_kind)schemes[i].kind, "", MARK, true);
        assert_int_equal(s.join, schemes[i].strips ? FXI_JOIN_MARKS : FXI_JOIN_NOTHING);
        assert_false(s.strips_space);
        expect_split(0, MARK, FXI_SPLIT_MERGED_NEXT, false);
    }
}

// After ByteLevel, Digits sees bytes.
FX_TEST(test_byte_level)
{
    must_read(&(parts){.pre = "{'type':'Sequence','pretokenizers':[{'type':'Punctuation',"
                              "'behavior':'Contiguous'},{'type':'ByteLevel','add_prefix_space':"
                              "false},{'type':'Digits'},{'type':'Split','pattern':{'Regex':"
                              "'[0-9][0-9]'},'behavior':'Isolated','invert':false}]}",
                       .decoder = "{'type':'ByteLevel'}"});
    assert_int_equal(s.spelling, FXI_SPELL_PRINTABLE);
    assert_true(s.unit_bytes);
    assert_int_equal(s.n_split, 4);
    expect_split(0, "[!-/:-@\\[-`{-~\\p{P}]", FXI_SPLIT_CONTIGUOUS, false);
    expect_split(2, "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]", FXI_SPLIT_CONTIGUOUS, false);
    expect_split(3, "(?m)[0-9][0-9]", FXI_SPLIT_ISOLATED, false);
    assert_true(!s.split[1].bytes && s.split[2].bytes);
}

FX_TEST(test_prefix_space)
{
    must_read(&(parts){.pre = "{'type':'ByteLevel','use_regex':false}",
                       .decoder = "{'type':'ByteLevel'}"});
    expect_norm(0, FXI_NORM_PREPEND_OTHER, "", " ", true);
    assert_int_equal(s.n_split, 0);
}

#define WORD  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define LATIN "\\xB2\\xB3\\xB9\\xBC-\\xBE"

// What Oniguruma and PCRE2 read differently.
FX_TEST(test_patterns)
{
    static const struct {
        const char *json, *pattern;
    } cases[] = {
        {"{'Regex':'a|b'}", "(?m)a|b"},
        {"{'Regex':'\\\\S[\\\\s\\\\]x]\\\\d'}", "(?m)\\P{White_Space}[\\p{White_Space}\\]x]\\d"},
        {"{'Regex':'\\\\w+[^\\\\w]\\\\W'}", "(?m)[" WORD LATIN "]+[^" WORD "][^" WORD LATIN "]"},
        {"{'Regex':'[\\\\p{Han}\\\\p{^Thai}\\\\P{Lu}]\\\\pL'}",
         "(?m)[\\p{sc:Han}\\p{^sc:Thai}\\P{Lu}]\\pL"},
        {"{'Regex':'\\\\v[\\\\vx]'}", "(?m)\\x0B[\\x0Bx]"},
        {"{'Regex':' ?[^(\\\\s|[.,[!]?])]+x'}", "(?m) ?[^(\\p{White_Space}|.,!?)]+x"},
        {"{'Regex':'\\\\[{2,3}'}", "(?m)\\[{2,3}"},
        {"{'Regex':'[[:alpha:]_][[:^digit:]]'}", "(?m)[\\p{Alphabetic}_](?:[^\\p{Nd}])"},
        {"{'Regex':'[a[^b]\\\\W]'}", "(?m)(?:[a]|[^b]|[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}])"},
        {"{'Regex':'[\\\\p{L}&&[^\\\\p{Han}]x]'}", "(?m)(?:(?=[\\p{L}])(?:[x]|[^\\p{sc:Han}]))"},
        {"{'Regex':'[^a[^b]]'}", "(?m)(?:(?!(?:[a]|[^b]))(?s:.))"},
        {"{'Regex':'(?i)(?m:a.)'}", "(?m)(?i)(?s:a.)"},
        {"{'Regex':'\\\\u0041{,2}\\\\p{^Alpha}'}", "(?m)\\x{0041}{0,2}[^\\p{Alphabetic}]"},
        {"{'String':'a.b c'}", "a\\.b\\ c"},
        {"{'String':'" MARK "\\\\E'}", MARK "\\\\E"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char step[256];
        snprintf(step, sizeof step,
                 "{'type':'Split','pattern':%s,'behavior':'Removed','invert':true}", cases[i].json);
        must_read(&(parts){.pre = step});
        expect_split(0, cases[i].pattern, FXI_SPLIT_REMOVED, true);
    }
}

FX_TEST(test_template)
{
    static const char *const posts[] = {
        "{'type':'Sequence','processors':[{'type':'ByteLevel'},{'type':'TemplateProcessing',"
        "'single':[{'SpecialToken':{'id':'B'}},{'Sequence':{'id':'A'}},{'SpecialToken':{'id':'E'}}]"
        ","
        "'special_tokens':{'B':{'ids':[1]},'E':{'ids':[2]}}}]}",
        "{'type':'RobertaProcessing','cls':['B',1],'sep':['E',2]}",
        "{'type':'BertProcessing','cls':['B',1],'sep':['E',2]}",
    };
    for (size_t i = 0; i < COUNT(posts); i++) {
        must_read(&(parts){.post = posts[i]});
        assert_true(s.adds_bos && s.adds_eos);
        assert_int_equal(s.bos, 1);
        assert_int_equal(s.eos, 2);
    }
}

FX_TEST(test_config)
{
    static const char json[] =
        "{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"b\"},\"add_bos_token\":true,"
        "\"add_eos_token\":null,\"model_max_length\":1000000000000000019884624838656,\"chat_"
        "template\":[{\"name\":\"tool_use\","
        "\"template\":\"x\"},{\"name\":\"default\",\"template\":\"{{ y }}\"}]}";
    must_read(&(parts){0});
    assert_int_equal(fxi_vocab_read_config(fxi_str_of(json), &s, NULL), FX_OK);
    assert_int_equal(s.bos, 0);
    assert_int_equal(s.eos, 1);
    assert_true(s.adds_bos && !s.adds_eos);
    assert_true(fxi_str_is(s.chat_template, "{{ y }}"));
}

//
// Broken files
//

typedef struct broken {
    parts p;
    const char *text; // of the error, after "t.json: "
} broken;

static void expect_broken(const broken *b)
{
    fx_error err = {.text = ""};
    assert_int_equal(read_parts(&b->p, &err), FX_EFORMAT);
    if (strncmp(err.text, "t.json: ", 8) || !strstr(err.text, b->text) || strchr(err.text, '\n'))
        fail_msg("'%s' is not the error for '%s'", err.text, b->text);
}

static const broken broken_files[] = {
    {{.model = "[]"}, "t.json: model: not an object"},
    {{.model = "{}"}, "model.type: missing"},
    {{.model = "{'type':7}"}, "model.type: not a string"},
    {{.model = "{'type':'Foo','vocab':{}}"}, "model.type: 'Foo' is not supported"},
    {{.model = "{'type':'WordPiece','vocab':{}}"}, "model.vocab: empty"},
    {{.model = "{'type':'WordPiece','vocab':[]}"}, "model.vocab: not an object"},
    {{.model = "{'type':'WordPiece','vocab':{'a':0},'max_input_chars_per_word':0}"},
     "model.max_input_chars_per_word: not a number from 1 to"},
    {{.model = "{'type':'WordPiece','vocab':{'a':0},'continuing_subword_prefix':7}"},
     "model.continuing_subword_prefix: not a string"},
    {{.model = "{'type':'WordLevel','vocab':{'a':-1}}"}, "model.vocab: not a token's id"},
    {{.model = "{'type':'BPE','vocab':{'a':0}}"}, "model.merges: not an array"},
    {{.model = "{'type':'BPE','merges':[]}"}, "model.vocab: not an object"},
    {{.model = "{'type':'BPE','vocab':{},'merges':[]}"}, "model.vocab: empty"},
    {{.model = "{'type':'BPE','vocab':{'a':-1},'merges':[]}"}, "model.vocab: not a token's id"},
    {{.model = "{'type':'BPE','vocab':{'a':1.5},'merges':[]}"}, "model.vocab: not a token's id"},
    {{.model = "{'type':'BPE','vocab':{'a':16777216},'merges':[]}"}, "model.vocab: not a token's"},
    {{.model = "{'type':'BPE','vocab':{'a':900000},'merges':[]}"},
     "1 pieces with ids up to 900000"},
    {{.model = "{'type':'BPE','vocab':{'a':1,'b':1},'merges':[]}"}, "both have id 1"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':['a']}"}, "model.merges[0]: not two pieces"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':['a a a']}"}, "merges[0]: not two pieces"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[7]}"}, "model.merges[0]: not two pieces"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[['a']]}"}, "merges[0]: not two pieces"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[['a',1]]}"}, "merges[0]: not two pieces"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':['a b']}"}, "'b' is not in the vocabulary"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':['a a']}"}, "'aa' is not in the vocabulary"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[],'unk_token':'?'}"},
     "model.unk_token: '?'"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[],'dropout':0.1}"}, "model.dropout: not"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[],'end_of_word_suffix':'</w>'}"},
     "model.end_of_word_suffix: not supported"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[],'continuing_subword_prefix':'##'}"},
     "model.continuing_subword_prefix: not supported"},
    {{.model = "{'type':'BPE','vocab':{'a':0},'merges':[],'ignore_merges':1}"},
     "model.ignore_merges: not true or false"},
    {{.model = "{'type':'Unigram','vocab':[['a']]}"},
     "model.vocab[0]: expected a piece and its score"},
    {{.model = "{'type':'Unigram','vocab':[['a',1e60]]}"}, "model.vocab[0]: score out of range"},
    {{.model = "{'type':'Unigram','vocab':[['a',1]],'unk_id':1}"},
     "model.unk_id: 1, but there are 1"},
    {{.model = "{'type':'Unigram','vocab':{}}"}, "model.vocab: not an array"},

    {{.added = "{}"}, "added_tokens: not an array"},
    {{.added = "[7]"}, "added_tokens[0].id: not a token's id"},
    {{.added = "[{'id':9}]"}, "added_tokens[0].content: missing"},
    {{.added = "[{'id':9,'content':'x','special':1}]"},
     "added_tokens[0].special: not true or false"},
    {{.added = "[{'id':0,'content':'x'}]"}, "added_tokens[0]: id 0 is 'a' already"},
    {{.added = "[{'id':99999,'content':'x'}]"},
     "added_tokens[0]: id 99999 leaves a gap of more than"},

    {{.normalizer = "7"}, "normalizer: not an object"},
    {{.normalizer = "{}"}, "normalizer.type: missing"},
    {{.normalizer = "{'type':'BertNormalizer','lowercase':1}"},
     "normalizer.lowercase: not true or false"},
    {{.normalizer = "{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'Foo'}]}"},
     "normalizer[1]: 'Foo' is not supported"},
    {{.normalizer = "{'type':'Sequence'}"}, "normalizer.normalizers: not an array"},
    {{.normalizer = "{'type':'Prepend'}"}, "normalizer.prepend: missing"},
    {{.normalizer = "{'type':'Replace','content':''}"}, "normalizer.pattern: neither a String nor"},
    {{.normalizer = "{'type':'Replace','pattern':{'String':''},'content':''}"},
     "normalizer.pattern: empty"},
    {{.normalizer = "{'type':'Replace','pattern':{'String':'x'}}"}, "normalizer.content: missing"},
    {{.normalizer = "{'type':'Precompiled','precompiled_charsmap':'*'}"},
     "normalizer.precompiled_charsmap: not base64"},

    {{.pre = "{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},"
             "{'type':'BertPreTokenizer'}]}"},
     "pre_tokenizer[1]: not supported after ByteLevel"},
    {{.pre = "{'type':'CharDelimiterSplit'}"}, "pre_tokenizer.delimiter: missing"},
    {{.pre = "{'type':'UnicodeScripts'}"}, "pre_tokenizer: 'UnicodeScripts' is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a'},'behavior':'Foo'}"},
     "pre_tokenizer.behavior: 'Foo' is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a{1,3}+'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: '+' or '?' after an interval is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a{3}?'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: '+' or '?' after an interval is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'[[:foo:]]'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: unknown POSIX class"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a\\\\X'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: \\R, \\X, "},
    {{.pre = "{'type':'Split','pattern':{'Regex':'[^a&&b]'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: the complement of an intersection (&&) is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'[a&&]'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: an empty class is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'[]a]'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: a class that begins with ']' is not supported"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'[a'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: unterminated character class"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a(?i)b'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: options that begin inside a group"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'(?~a)'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: (?~ is not"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'\\\\u12'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: \\u needs four"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a\\\\'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: the pattern ends with a backslash"},
    {{.pre = "{'type':'Split','pattern':{'Regex':'a','String':'a'},'behavior':'Removed'}"},
     "pre_tokenizer.pattern: neither a String nor a Regex"},
    {{.pre = "{'type':'Metaspace','replacement':'_'}"}, "pre_tokenizer.replacement: '_' is not"},
    {{.pre = "{'type':'Metaspace','replacement':'" MARK "','prepend_scheme':'x'}"},
     "pre_tokenizer.prepend_scheme: 'x' is not supported"},
    {{.pre = "{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'Metaspace',"
             "'replacement':'" MARK "'}]}"},
     "pre_tokenizer[1]: a step after ByteLevel cannot change the text"},
    {{.pre = "{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'ByteLevel'}]}"},
     "pre_tokenizer[1]: a second ByteLevel"},
    {{.pre = "{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'Split','pattern':"
             "{'Regex':'\\\\d'},'behavior':'Removed'}]}"},
     "pre_tokenizer[1].pattern: not supported after ByteLevel"},
    {{.pre = "{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'Whitespace'}]}"},
     "pre_tokenizer[1]: not supported after ByteLevel"},

    {{.decoder = "{'type':'Sequence','decoders':[]}"},
     "decoder: pieces are plain bytes, but nothing decodes them"},
    {{.decoder = "{'type':'CTC'}"}, "decoder: 'CTC' is not supported"},
    {{.decoder = "{'type':'WordPiece','cleanup':7}"}, "decoder.cleanup: not true or false"},
    {{.pre = "{'type':'ByteLevel'}", .decoder = "{'type':'WordPiece'}"},
     "decoder: the decoder expects plain bytes, but pieces are ByteLevel's"},
    {{.decoder = "{'type':'ByteLevel'}"}, "decoder: the decoder expects ByteLevel's"},
    {{.decoder = "{'type':'Metaspace','replacement':'" MARK "'}"}, "but pieces are plain bytes"},
    {{.pre = "{'type':'ByteLevel'}"}, "decoder: pieces are ByteLevel's characters for bytes"},
    {{.model = "{'type':'Unigram','vocab':[['a',1]],'byte_fallback':true}"},
     "decoder: ByteFallback is missing, but model.byte_fallback is true"},
    {{.decoder = "{'type':'Strip','content':'x','start':1,'stop':0}"},
     "decoder: Strip is supported only for one"},
    {{.decoder = "{'type':'Replace','pattern':{'String':'x'},'content':' '}"},
     "decoder: Replace is supported only from U+2581 to a space"},

    {{.post = "{'type':'Foo'}"}, "post_processor: 'Foo' is not supported"},
    {{.post = "{'type':'TemplateProcessing'}"}, "post_processor.single: not an array"},
    {{.post = "{'type':'TemplateProcessing','single':[]}"}, "single: no Sequence for the text"},
    {{.post = "{'type':'TemplateProcessing','single':[{'Sequence':{}},{'Sequence':{}}]}"},
     "post_processor.single[1]: a template with the text twice"},
    {{.post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'B'}}]}"},
     "post_processor.single[0]: 'B' is not one id in special_tokens"},
    {{.post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'B'}},{'SpecialToken':"
              "{'id':'B'}}],'special_tokens':{'B':{'ids':[1]}}}"},
     "post_processor.single[1]: more than one token before the text"},
    {{.post = "{'type':'BertProcessing','cls':['B',9],'sep':['E',2]}"},
     "post_processor.cls: id 9, but there are 4 tokens"},
};

FX_TEST(test_broken_files)
{
    for (size_t i = 0; i < COUNT(broken_files); i++) expect_broken(&broken_files[i]);
}

FX_TEST(test_broken_json)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"", "t.json: line 1, column "},
        {"{\n'model':", "t.json: line 2, column "},
        {"[]", "t.json: not a JSON object"},
        {"{'model':'\xFF'}", "t.json: line 1, column "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fx_error err = {.text = ""};
        assert_int_equal(read_json(cases[i].json, &err), FX_EFORMAT);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

// Absurd nesting is refused before it is parsed.
FX_TEST(test_deep_json)
{
    fxi_buf b = {0};
    assert_true(fxi_buf_str(&b, "{'normalizer':"));
    for (int i = 0; i < 100000; i++)
        assert_true(fxi_buf_str(&b, "{'type':'Sequence','normalizers':["));
    assert_int_equal(read_json(b.p, NULL), FX_EFORMAT);
    fxi_buf_free(&b);
}

FX_TEST(test_broken_config)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"bos_token\":\"?\"}", "t.json: bos_token: '?' is not in the vocabulary"},
        {"{\"eos_token\":7}", "t.json: eos_token: not a token"},
        {"{\"add_bos_token\":true}", "t.json: add_bos_token: true, but there is none"},
        {"{\"add_eos_token\":1}", "add_eos_token: not true or false"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fx_error err = {.text = ""};
        must_read(&(parts){0});
        assert_int_equal(fxi_vocab_read_config(fxi_str_of(cases[i].json), &s, &err), FX_EFORMAT);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

FX_RUN(test_vocab_hf)
