// test_hub_listing.c - a hub's list of files, and the heads of a file's answer.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "hub/hub_parts.h"

#define SHA1   "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

FX_TEST(test_a_list)
{
    static const char text[] =
        "{\"sha\": \"" SHA1 "\", \"siblings\": [{\"rfilename\": \"b\"}, {\"rfilename\": \"a/c\", "
        "\"size\": 7, \"blobId\": \"" SHA1 "\"}, {\"rfilename\": \"d\", \"size\": 9, \"blobId\": "
        "\"" SHA1 "\", \"lfs\": {\"sha256\": \"0123456789ABCDEF" /* lower case becomes the name */
        "0123456789abcdef0123456789abcdef0123456789abcdef\", \"size\": 5000000000}}, "
        "{\"rfilename\": \"e\", \"size\": -1, \"blobId\": \"" SHA1 "\"}, {\"rfilename\": \"f\", "
        "\"size\": 1, \"blobId\": \"../x\"}]}";
    fxi_hub_listing l;
    fx_error err;
    if (fxi_hub_listing_read(fxi_str_of(text), &l, &err) != FX_OK) fail_msg("%s", err.text);
    assert_string_equal(l.commit, SHA1);
    assert_int_equal(l.n, 5);
    assert_string_equal(l.file[0].name, "a/c");
    assert_true(l.file[0].is_known);
    assert_int_equal(l.file[0].n_bytes, 7);
    assert_string_equal(l.file[0].hash, SHA1);
    assert_false(l.file[1].is_known);
    assert_string_equal(l.file[2].hash, SHA256);
    assert_int_equal(l.file[2].n_bytes, 5000000000);
    assert_false(l.file[3].is_known);
    assert_false(l.file[4].is_known);
    fxi_hub_listing_free(&l);
}

// What the last of several heads says.
static fxi_hub_head head_of(const char *text)
{
    fxi_hub_head h;
    fxi_hub_head_read(fxi_str_of(text), &h);
    return h;
}

FX_TEST(test_heads_of_a_redirect)
{
    const fxi_hub_head h =
        head_of("HTTP/2 302\r\nX-Repo-Commit: " SHA1 "\r\nx-linked-size: 1000\r\n"
                "X-Linked-ETag:  W/\"" SHA256 "\" \r\nContent-Length: 5\r\n"
                "ETag: \"hub\"\r\n\r\nHTTP/1.1 206 OK\r\nEtag: \"storage\"\r\n"
                "Content-Length: 1\r\nContent-Range: bytes 0-0/1000\r\n\r\n");
    assert_string_equal(h.commit, SHA1);
    assert_string_equal(h.hash, SHA256);
    assert_true(h.has_size && h.has_range);
    assert_int_equal(h.n_bytes, 1000);
    assert_int_equal(h.total, 1000);
}

FX_TEST(test_heads_of_a_plain_server)
{
    const fxi_hub_head h =
        head_of("HTTP/1.1 200 OK\r\nETag: \"" SHA256 "\"\r\nContent-Length: 77\r\n");
    assert_string_equal(h.hash, ""); // of no hub: it need not be a hash
    assert_true(fxi_str_is(h.etag, SHA256));
    assert_int_equal(h.n_bytes, 77);
    assert_false(head_of("HTTP/1.1 200 OK\r\n").has_size);
    assert_false(head_of("Content-Length: 12x\r\n").has_size);
    assert_false(head_of("Content-Length: 99999999999999999999999\r\n").has_size);
    assert_string_equal(head_of("X-Error-Code: GatedRepo\r\n").error_code, "GatedRepo");
    assert_string_equal(head_of("X-Error-Code: Gated\x1b[0m\r\n").error_code, "");
}

FX_TEST(test_ranges_that_are_none)
{
    static const char *const bad[] = {"bytes 0-0/*", "bytes */5",    "0-1/2",        "bytes 5-4/9",
                                      "bytes 0-9/9", "bytes 0-1/2x", "bytes -1/2",   "bytes",
                                      "bytes 0-1",   "lines 0-1/2",  "bytes 0-1/-2", ""};
    char text[80];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "Content-Range: %s\r\n", bad[i]);
        if (head_of(text).has_range) fail_msg("%s", bad[i]);
    }
    const fxi_hub_head h = head_of("Content-Range: BYTES 3-4/18446744073709551615\r\n");
    assert_true(h.has_range && h.from == 3 && h.total == UINT64_MAX);
}

FX_RUN(test_hub_listing)
