// test_guard.c - policy as data: names of hosts, origins of pages, key files, addresses, domains.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/guard/keys.h"
#include "server/guard/origin.h"
#include "server/guard/places.h"
#include "unit/cmocka_all.h"

// ---- names ------------------------------------------------------------------------------------

FX_TEST(test_names_of_this_server_are_known)
{
    static const char *const extra[] = {"llm.example", "a.example,b.example"};
    static const fxi_origins here = {.listen_host = "127.0.0.1"};
    static const fxi_origins lan = {.listen_host = "192.0.2.7", .hosts = {extra, 2}};
    static const fxi_origins open = {.listen_host = "0.0.0.0"};
    static const struct {
        const char *host;
        bool here, lan, open;
    } rows[] = {
        {"localhost", true, true, true},
        {"LocalHost:8080", true, true, true},
        {"localhost.:8080", true, true, true},
        {"127.0.0.1", true, true, true},
        {"127.9.9.9:1", true, true, true},
        {"[::1]:8080", true, true, true},
        {"[::1]", true, true, true},
        {"192.0.2.7:80", false, true, true},
        {"192.0.2.8:80", false, false, true},
        {"[2001:db8::5]:80", false, false, true},
        {"llm.example:8080", false, true, false},
        {"b.example", false, true, false},
        {"a.example,b.example", false, false, false},
        {"evil.example", false, false, false},
        {"localhost.evil.example", false, false, false},
        {"127.0.0.1.evil.example", false, false, false},
        {"localhost:80@evil.example", false, false, false},
        {"localhost:8o", false, false, false},
        {"evil.example:localhost", false, false, false},
        {"[::1", false, false, false},
        {"[::1]x", false, false, false},
        {"", false, false, false},
        {".", false, false, false},
        {":80", false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fxi_host_is_known(&here, rows[i].host) != rows[i].here ||
            fxi_host_is_known(&lan, rows[i].host) != rows[i].lan ||
            fxi_host_is_known(&open, rows[i].host) != rows[i].open)
            fail_msg("Host: %s", rows[i].host);
    }
}

FX_TEST(test_any_name_is_known_by_option)
{
    static const char *const star[] = {"*"};
    const fxi_origins o = {.listen_host = "127.0.0.1", .hosts = {star, 1}};
    assert_true(fxi_host_is_known(&o, "evil.example"));
}

FX_TEST(test_pages_of_other_origins_are_refused)
{
    static const char *const list[] = {"https://app.example", "http://localhost:5173,null"};
    static const fxi_origins plain = {.listen_host = "127.0.0.1"};
    static const fxi_origins cors = {.listen_host = "127.0.0.1", .cors = {list, 2}};
    static const fxi_origins tls = {.listen_host = "127.0.0.1", .tls = true};
    static const struct {
        const char *origin, *host;
        bool plain, cors, tls;
    } rows[] = {
        {"http://localhost:8080", "localhost:8080", true, true, false},
        {"https://localhost:8080", "localhost:8080", false, false, true},
        {"http://LOCALHOST", "localhost:80", true, true, false},
        {"https://localhost", "localhost:443", false, false, true},
        {"http://localhost:3000", "localhost:8080", false, false, false},
        {"http://127.0.0.1:8080", "localhost:8080", false, false, false},
        {"https://app.example", "localhost:8080", false, true, false},
        {"https://app.example.evil", "localhost:8080", false, false, false},
        {"http://app.example", "localhost:8080", false, false, false},
        {"http://localhost:5173", "localhost:8080", false, true, false},
        {"http://evil.example", "evil.example", false, false, false},
        {"http://evil.example", "localhost:8080", false, false, false},
        {"null", "localhost:8080", false, true, false},
        {"", "localhost:8080", false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fxi_origin_is_allowed(&plain, rows[i].origin, rows[i].host) != rows[i].plain ||
            fxi_origin_is_allowed(&cors, rows[i].origin, rows[i].host) != rows[i].cors ||
            fxi_origin_is_allowed(&tls, rows[i].origin, rows[i].host) != rows[i].tls)
            fail_msg("Origin: %s at %s", rows[i].origin, rows[i].host);
    }
}

// ---- keys -------------------------------------------------------------------------------------

static fx_status read_keys(fxi_key_set *set, const char *text, fx_error *err)
{
    return fxi_key_set_read(set, text, strlen(text), "keys", err);
}

FX_TEST(test_a_key_file_is_read)
{
    fxi_key_set *set = calloc(1, sizeof *set);
    fx_error err = {0};
    assert_int_equal(read_keys(set,
                               "# people\n\n"
                               "ann  sk-ann-1\r\n"
                               "\tops\tsk-ops\tadmin priority=100\n"
                               "ann sk-ann-2 priority=7",
                               &err),
                     FX_OK);
    assert_int_equal(set->n, 3);
    assert_string_equal(set->key[0]->tenant.id, "ann");
    assert_string_equal(set->key[0]->text, "sk-ann-1");
    assert_false(set->key[0]->tenant.is_admin);
    assert_int_equal(set->key[0]->tenant.max_priority, 0);
    assert_true(set->key[1]->tenant.is_admin);
    assert_int_equal(set->key[1]->tenant.max_priority, 100);
    assert_int_equal(set->key[2]->tenant.max_priority, 7);
    assert_string_equal(set->key[2]->tenant.salt, set->key[0]->tenant.salt);
    assert_string_not_equal(set->key[1]->tenant.salt, set->key[0]->tenant.salt);
    fxi_key_set_clear(set);
    free(set);
}

FX_TEST(test_a_wrong_line_is_named_without_its_key)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"a k1\nb", "keys, line 2: a key must follow the name"},
        {"a/b sk-secret", "keys, line 1: a name has 1 to 47 letters"},
        {"anonymous sk-secret", "keys, line 1: a name has 1 to 47 letters"},
        {"a sk-secret root", "keys, line 1: after the key come 'admin' and 'priority=N'"},
        {"a sk-secret priority=101", "keys, line 1: after the key"},
        {"a sk-secret priority=-1", "keys, line 1: after the key"},
        {"a sk-secret priority=", "keys, line 1: after the key"},
        {"a sk-secret\nb sk-secret", "keys, line 2: the key occurs twice"},
        {"a sk-secr\xc3\xa9t", "keys, line 1: a key is 1 to 256 printable"},
    };
    fxi_key_set *set = calloc(1, sizeof *set);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fx_error err = {0};
        assert_int_equal(read_keys(set, rows[i].text, &err), FX_EINVAL);
        if (strncmp(err.text, rows[i].want, strlen(rows[i].want)) != 0)
            fail_msg("'%s': %s", rows[i].text, err.text);
        assert_null(strstr(err.text, "sk-secr"));
        fxi_key_set_clear(set);
    }
    free(set);
}

static const char *write_keys(const char *text, mode_t mode)
{
    static char path[] = "/tmp/test_guard_keys_XXXXXX";
    static bool made;
    const int fd = made ? open(path, O_WRONLY | O_TRUNC) : mkstemp(path);
    made = true;
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

FX_TEST(test_a_reload_replaces_keys_and_a_broken_file_does_not)
{
    fxi_keyring *ring;
    fx_error err;
    const char *path = write_keys("a one\nb two admin\n", 0600);
    assert_int_equal(fxi_keyring_open(path, "lone", &ring, &err), FX_OK);
    assert_int_equal(fxi_keyring_look(ring).n_key, 3);
    assert_true(fxi_keyring_look(ring).has_admin);
    assert_false(fxi_keyring_look(ring).is_exposed);
    const fxi_tenant *a = fxi_keyring_find(ring, "one");
    assert_string_equal(a->id, "a");
    const fxi_tenant *lone = fxi_keyring_find(ring, "lone");
    assert_string_equal(lone->id, "default");
    fxi_tenant_release(lone);
    assert_null(fxi_keyring_find(ring, "on"));
    assert_null(fxi_keyring_find(ring, "onee"));
    assert_null(fxi_keyring_find(ring, ""));
    write_keys("a one x\n", 0600);
    assert_int_equal(fxi_keyring_reload(ring, &err), FX_EINVAL);
    write_keys("# none\n", 0600);
    assert_int_equal(fxi_keyring_reload(ring, &err), FX_EINVAL); // not a server without keys
    assert_int_equal(fxi_keyring_look(ring).n_key, 3);
    write_keys("c three\n", 0644);
    assert_int_equal(fxi_keyring_reload(ring, &err), FX_OK);
    assert_true(fxi_keyring_look(ring).is_exposed);
    assert_false(fxi_keyring_look(ring).has_admin);
    assert_null(fxi_keyring_find(ring, "one"));
    assert_string_equal(a->id, "a"); // still held
    fxi_tenant_release(a);
    fxi_keyring_close(ring);
    unlink(path);
    assert_int_equal(fxi_keyring_open(path, NULL, &ring, &err), FX_EIO);
    assert_int_equal(fxi_keyring_open(NULL, "two words", &ring, &err), FX_EINVAL);
    assert_int_equal(fxi_keyring_open(NULL, NULL, &ring, &err), FX_OK);
    assert_null(fxi_keyring_find(ring, ""));
    fxi_keyring_close(ring);
}

// ---- domains ----------------------------------------------------------------------------------

FX_TEST(test_no_client_can_name_the_domain_of_another)
{
    static const fxi_tenant a = {.id = "a", .salt = "key:a"};
    static const struct {
        const fxi_tenant *t;
        const char *scope, *salt;
    } rows[] = {{NULL, "", NULL}, {NULL, "", "x"},  {NULL, "x", NULL},    {NULL, "", "/x"},
                {&a, "", NULL},   {&a, "", "x"},    {NULL, "", "key:a/"}, {NULL, "x", "/"},
                {&a, "x", NULL},  {NULL, "", "x/x"}};
    enum { N = sizeof rows / sizeof rows[0] };
    fxi_buf b[N] = {{0}};
    for (int i = 0; i < N; i++) {
        const fxi_tenant *t = rows[i].t ? rows[i].t : fxi_tenant_anonymous();
        assert_true(fxi_tenant_domain(&b[i], t, rows[i].scope, rows[i].salt));
        for (int k = 0; k < i; k++) assert_string_not_equal(b[i].p, b[k].p);
    }
    for (int i = 0; i < N; i++) fxi_buf_free(&b[i]);
}

// ---- addresses --------------------------------------------------------------------------------

static fxi_address address_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return fxi_address_of((struct sockaddr *)(void *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return fxi_address_of((struct sockaddr *)(void *)&v6);
}

FX_TEST(test_one_network_is_one_address)
{
    static const struct {
        const char *from, *text;
        bool loopback;
    } rows[] = {
        {"203.0.113.9", "203.0.113.9", false},
        {"127.0.0.5", "127.0.0.5", true},
        {"::1", "::1", true},
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", false},
        {"::ffff:203.0.113.9", "203.0.113.9", false},
        {"::ffff:127.0.0.1", "127.0.0.1", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[FXI_ADDRESS_TEXT_BYTES];
        const fxi_address a = address_of(rows[i].from);
        assert_string_equal(fxi_address_text(&a, text), rows[i].text);
        assert_int_equal(fxi_address_is_loopback(&a), rows[i].loopback);
    }
}

FX_TEST(test_users_of_this_machine_stand_for_addresses)
{
    char text[FXI_ADDRESS_TEXT_BYTES];
    const fxi_address a = fxi_address_of_user(1000), b = fxi_address_of_user(4294967294u);
    assert_string_equal(fxi_address_text(&a, text), "uid:1000");
    assert_string_equal(fxi_address_text(&b, text), "uid:4294967294");
    assert_true(fxi_address_is_loopback(&a));
    assert_memory_not_equal(&a, &b, sizeof a);
}

FX_TEST(test_connections_are_counted_by_address)
{
    enum { N = 1000 };
    static fxi_places ps = {.max_conn = N};
    static fxi_place p[N];
    for (int i = 0; i < N; i++) {
        char text[32];
        snprintf(text, sizeof text, "10.0.%d.%d", i % 7, i % 100);
        const fxi_address a = address_of(text);
        assert_true(fxi_places_enter(&ps, &p[i], &a, 0));
        assert_memory_equal(&p[i].from->address, &a, sizeof a);
    }
    assert_ptr_equal(p[0].from, p[700].from);
    assert_int_equal(p[0].from->n_conn, 2); // 700 addresses
    for (int i = 0; i < N; i++) fxi_places_leave(&ps, &p[i]);
    for (int i = 0; i < FXI_N_ADDRESS_BUCKET; i++) assert_null(ps.addresses.bucket[i]);
}

// ---- clients ------------------------------------------------------------------------------------

// A tenant is one client with all its keys and from anywhere; without keys an address is one.
FX_TEST(test_clients_are_tenants_or_addresses)
{
    static const fxi_tenant ann = {.id = "ann", .salt = "key:ann"},
                            again = {.id = "ann", .salt = "key:ann"},
                            bob = {.id = "bob", .salt = "key:bob"};
    const fxi_tenant *none = fxi_tenant_anonymous();
    const fxi_secret s = fxi_secret_make(), other = fxi_secret_make();
    const fxi_address here = {{[15] = 1}}, there = {{[15] = 2}};
    assert_true(fxi_tenant_client(&ann, &here, s) == fxi_tenant_client(&again, &there, s));
    assert_true(fxi_tenant_client(&ann, &here, s) != fxi_tenant_client(&bob, &here, s));
    assert_true(fxi_tenant_client(none, &here, s) == fxi_tenant_client(none, &here, s));
    assert_true(fxi_tenant_client(none, &here, s) != fxi_tenant_client(none, &there, s));
    assert_true(fxi_tenant_client(none, &here, s) != 0);
    assert_true(fxi_tenant_client(none, &here, s) != fxi_tenant_client(none, &here, other));
}

FX_RUN(test_guard)
