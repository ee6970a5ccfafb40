// test_vt_cuda_order.c - the GPU backend beside running kernels, on the stand-in for NVIDIA's
// driver: who waits for whom, in which order queued work is done, what a ticket covers, and what
// happens while a stream is being captured into a graph.
//
// The stand-in does queued work as late as it may: what a test sees is done was waited for.
#include "cuda_rig.h"
#include "suite.h"

static uint64_t awaited;

static vt_status fetch_queued(int at, uint64_t index)
{
    return vmm->ops->fetch(vmm, place(at), 0, index, 0, SLICE, VT_VMM_QUEUED);
}

static vt_status await_ticket(void)
{
    bool is_passed = false;
    vt_status st = vmm->ops->passed(vmm, awaited, true, &is_passed);
    return st == VT_OK && !is_passed ? VT_EINVAL : st;
}

// The calls that an owner makes in a step, while the step before still runs.
FX_TEST(test_the_owner_waits_for_nothing)
{
    uintptr_t addr = 0;
    create_filled(0, 2, 's');
    assert_ok(map(0, 0, 0, 1));
    standin_launch(NULL, place(0), 'n', SLICE);
    uint64_t before = standin_waits();
    assert_ok(vmm->ops->reserve(vmm, 4 * SLICE, &addr));
    assert_ok(vmm->ops->create(vmm, 2, 2));
    assert_ok(vmm->ops->map(vmm, addr, 0, 2, 2, VT_VMM_WRITE));
    assert_ok(vmm->ops->map(vmm, place(4), 0, 0, 1, VT_VMM_READ));
    assert_ok(vmm->ops->zero(vmm, addr, 2 * SLICE, VT_VMM_QUEUED));
    for (int i = 0; i < 40; i++)
        assert_ok(vmm->ops->fetch(vmm, addr, 0, 1, 0, SLICE, VT_VMM_QUEUED));
    assert_false(passed(fence(), false));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->create(vmm, 9, 1));
    assert_ok(vmm->ops->destroy(vmm, 9, 1));
    assert_int_equal(standin_waits(), before);
    standin_end_kernels(NULL, 1);
    assert_true(passed(fence(), true));
    assert_int_equal(standin_waits(), before + 1);
    assert_bytes(addr, 's', SLICE);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * SLICE));
    assert_ok(vmm->ops->unreserve(vmm, addr, 4 * SLICE));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 4));
}

// They would wait for ever if they waited for the kernel.
FX_TEST(test_what_is_done_now_waits_for_itself_alone)
{
    uint64_t sum;
    create_filled(0, 1, 's');
    assert_ok(vmm->ops->create(vmm, 1, 1));
    assert_ok(map(0, 0, 1, 1));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(vmm->ops->swap_write(vmm, 0, place(0), SLICE, &sum));
    standin_launch(NULL, 0, 0, 0);
    uint64_t before = standin_waits();
    assert_ok(vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_NOW));
    assert_bytes(place(0), 0, SLICE);
    assert_ok(vmm->ops->fetch(vmm, place(0), 0, 0, 0, SLICE, VT_VMM_NOW));
    assert_bytes(place(0), 's', SLICE);
    assert_int_equal(standin_waits(), before + 2);
    assert_ok(vmm->ops->swap_read(vmm, place(0), 0, SLICE, &sum));
    assert_ok(unmap(0, 1)); // nothing runs there
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    standin_end_kernels(NULL, 1);
}

// A kernel, a copy of what it writes, wiping of that, and a kernel that writes into the copy.
FX_TEST(test_queued_work_keeps_its_place)
{
    create_filled(0, 2, 'o');
    assert_ok(map(0, 0, 0, 1));
    assert_ok(map(4, 0, 1, 1));
    standin_launch(NULL, place(0), 'n', SLICE);
    assert_ok(fetch_queued(4, 0));
    assert_ok(vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_QUEUED));
    standin_launch(NULL, place(4), 'k', 100);
    standin_settle();
    assert_bytes(place(0), 'o', SLICE);
    assert_bytes(place(4), 'o', SLICE);
    standin_end_kernels(NULL, 2);
    standin_settle();
    assert_bytes(place(0), 0, SLICE);
    assert_bytes(place(4), 'k', 100);
    assert_bytes(place(4) + 100, 'n', SLICE - 100);
    assert_ok(unmap(0, 1));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

// As many windows as copies are queued, and no more afterwards.
FX_TEST(test_windows_are_used_again)
{
    enum { N = 20 };
    create_filled(0, 2, 's');
    assert_ok(map(4, 0, 1, 1));
    uint64_t before = standin_look().n_reservation;
    standin_launch(NULL, 0, 0, 0);
    for (int i = 0; i < N; i++) assert_ok(fetch_queued(4, 0));
    assert_int_equal(standin_look().n_reservation, before + N);
    assert_int_equal(standin_look().n_mapping, 1 + N);
    standin_end_kernels(NULL, 1);
    (void)fence();
    for (int i = 0; i < 4 * N; i++) {
        assert_ok(fetch_queued(4, 0));
        (void)fence();
    }
    assert_int_equal(standin_look().n_reservation, before + N);
    assert_true(standin_look().n_mapping <= 1 + N);
    assert_true(passed(fence(), true));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    assert_int_equal(standin_look().n_mapping, 0);
}

// Nobody asks for tickets: the backend gives one to every few windows.
FX_TEST(test_windows_need_no_tickets_of_the_manager)
{
    create_filled(0, 2, 's');
    assert_ok(map(4, 0, 1, 1));
    uint64_t before = standin_look().n_reservation, events = standin_calls("cuEventRecord");
    for (int i = 0; i < 320; i++) assert_ok(fetch_queued(4, 0));
    assert_true(standin_look().n_reservation <= before + 32);
    assert_int_equal(standin_calls("cuEventRecord") - events, 320 / 16);
    standin_settle();
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

// The copies are done, as whoever destroys knows, but no ticket has said so to the backend.
FX_TEST(test_destroy_takes_chunks_out_of_windows)
{
    create_filled(0, 5, 's');
    assert_ok(map(4, 0, 4, 1));
    for (uint64_t i = 0; i < 4; i++) assert_ok(fetch_queued(4, i));
    standin_settle();
    assert_int_equal(standin_look().n_mapping, 5);
    assert_ok(vmm->ops->destroy(vmm, 1, 2)); // from the middle
    assert_int_equal(standin_look().n_mapping, 3);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(vmm->ops->destroy(vmm, 3, 1)); // the last
    assert_ok(fetch_queued(4, 0));
    assert_true(passed(fence(), true));
    uint64_t before = standin_look().n_reservation;
    assert_ok(fetch_queued(4, 0)); // the windows before it have landed
    assert_int_equal(standin_look().n_reservation, before);
    standin_settle();
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    assert_ok(unmap(4, 1));
    assert_ok(vmm->ops->destroy(vmm, 4, 1));
    assert_int_equal(standin_look().memory_bytes + standin_look().n_mapping, 0);
}

static vt_status copy_many_now(void)
{
    vt_status st = VT_OK;
    for (int i = 0; i < 200 && st == VT_OK; i++)
        st = vmm->ops->fetch(vmm, place(8), 0, 1, 0, SLICE, VT_VMM_NOW);
    return st;
}

FX_TEST(test_two_threads_share_the_windows)
{
    errand e;
    create_filled(0, 2, 's');
    assert_ok(vmm->ops->create(vmm, 2, 2));
    assert_ok(map(4, 0, 2, 1));
    assert_ok(map(8, 0, 3, 1));
    send(&e, copy_many_now);
    for (int i = 0; i < 200; i++) {
        assert_ok(fetch_queued(4, 0));
        (void)passed(fence(), i % 3 == 0);
    }
    meet(&e);
    assert_true(passed(fence(), true));
    assert_bytes(place(4), 's', SLICE);
    assert_bytes(place(8), 's', SLICE);
    assert_ok(unmap(4, 1));
    assert_ok(unmap(8, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 4));
}

FX_TEST(test_a_fence_is_passed_when_its_work_is_done)
{
    assert_true(passed(0, false));
    assert_true(passed(fence(), false)); // nothing was given
    standin_launch(NULL, 0, 0, 0);
    uint64_t first = fence();
    standin_launch(NULL, 0, 0, 0);
    uint64_t second = fence();
    assert_true(first < second);
    assert_false(passed(first, false));
    standin_end_kernels(NULL, 1);
    assert_false(passed(second, false));
    assert_true(passed(first, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(second, true));
    assert_true(passed(first, true));
}

FX_TEST(test_another_thread_sleeps_until_a_fence_is_passed)
{
    errand e;
    standin_launch(NULL, 0, 0, 0);
    awaited = fence();
    standin_launch(NULL, 0, 0, 0);
    send(&e, await_ticket);
    standin_await_waiter();
    standin_end_kernels(NULL, 1);
    meet(&e);
    assert_false(passed(fence(), false));
    standin_end_kernels(NULL, 1);
}

// More fences than there are marks: the newest mark answers for those that came last.
FX_TEST(test_no_fence_is_forgotten)
{
    enum { N = 200, N_MARK = 64 };
    uint64_t ticket[N];
    for (int i = 0; i < N; i++) {
        standin_launch(NULL, 0, 0, 0);
        ticket[i] = fence();
    }
    assert_true(standin_look().n_event <= N_MARK);
    assert_false(passed(ticket[0], false));
    standin_end_kernels(NULL, N_MARK - 1);
    assert_true(passed(ticket[0], false));
    assert_true(passed(ticket[N_MARK - 2], false));
    assert_false(passed(ticket[N_MARK - 1], false));
    standin_end_kernels(NULL, N - N_MARK);
    assert_false(passed(ticket[N - 2], false)); // cannot be told from the last
    assert_false(passed(ticket[N - 1], false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(ticket[N_MARK - 1], false));
    assert_true(passed(ticket[N - 1], false));
}

static uint64_t last_of_ring;

static void pass_the_ring(void)
{
    standin_end_kernels(NULL, 64);
    assert_true(passed(last_of_ring, false));
}

// The ring is full, so the newest mark is set again; meanwhile another thread finds all passed.
FX_TEST(test_a_mark_may_pass_while_it_is_set_again)
{
    for (int i = 0; i < 64; i++) {
        standin_launch(NULL, 0, 0, 0);
        last_of_ring = fence();
    }
    standin_launch(NULL, 0, 0, 0);
    standin_before("cuEventRecord", pass_the_ring);
    uint64_t next = fence();
    standin_launch(NULL, 0, 0, 0);
    uint64_t after = fence();
    assert_false(passed(next, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(next, false));
    assert_false(passed(after, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(after, true));
}

// However many tickets there were, those that are not passed have marks of their own.
FX_TEST(test_marks_are_used_again)
{
    for (int i = 0; i < 200; i++) {
        standin_launch(NULL, 0, 0, 0);
        uint64_t first = fence();
        standin_launch(NULL, 0, 0, 0);
        uint64_t second = fence();
        standin_end_kernels(NULL, 1);
        assert_true(passed(first, false));
        assert_false(passed(second, false));
        standin_end_kernels(NULL, 1);
        assert_true(passed(second, false));
    }
    assert_true(standin_look().n_event <= 64);
}

// Whoever asks in order, oldest first, and stops at the first that is not passed, asks the driver
// once for each mark that is passed, and once more.
FX_TEST(test_tickets_are_asked_for_cheaply)
{
    enum { N = 60 };
    uint64_t ticket[N];
    int at = 0;
    for (int i = 0; i < N; i++) {
        standin_launch(NULL, 0, 0, 0);
        ticket[i] = fence();
    }
    for (int round = 0; round < N; round++) {
        uint64_t before = standin_calls("cuEventQuery");
        while (at < N && passed(ticket[at], false)) at++;
        assert_int_equal(at, round);
        assert_int_equal(standin_calls("cuEventQuery") - before, round ? 2 : 1);
        standin_end_kernels(NULL, 1);
    }
    uint64_t before = standin_calls("cuEventQuery");
    assert_true(passed(ticket[N - 1], false));
    for (int i = 0; i < N; i++) assert_true(passed(ticket[i], false)); // these are known
    assert_int_equal(standin_calls("cuEventQuery") - before, 1);
}

// The mark could not be set. Whoever asks sets one, behind what was submitted meanwhile.
FX_TEST(test_a_ticket_without_a_mark_gets_one)
{
    const char *const needed[] = {"cuEventCreate", "cuEventRecord", "cuStreamIsCapturing"};
    for (int i = 0; i < 3; i++) {
        standin_launch(NULL, 0, 0, 0);
        standin_fail(needed[i], 0, 1, STANDIN_UNKNOWN);
        uint64_t bare = fence();
        assert_int_equal(standin_fired(), 1);
        standin_launch(NULL, 0, 0, 0);
        assert_false(passed(bare, false));
        standin_end_kernels(NULL, 1);
        assert_false(passed(bare, false)); // it waits for the second kernel, too
        standin_end_kernels(NULL, 1);
        assert_true(passed(bare, true));
    }
    standin_fail("cuEventRecord", 0, 2, STANDIN_UNKNOWN);
    awaited = fence();
    assert_int_equal(await_ticket(), VT_EDEVICE);
    assert_ok(await_ticket());
    bool is_passed = true;
    standin_fail("cuEventQuery", 0, 1, STANDIN_UNKNOWN);
    assert_int_equal(vmm->ops->passed(vmm, fence(), false, &is_passed), VT_EDEVICE);
    assert_false(is_passed);
}

// A backend on streams of its own beside the one of the rig.
typedef struct side_rig {
    vt_vmm *first;
    void *main, *beside[2], *unknown; // streams
} side_rig;

static side_rig open_side(void)
{
    side_rig r = {.first = vmm, .main = standin_new_stream(false)};
    r.beside[0] = standin_new_stream(false);
    r.beside[1] = standin_new_stream(true);
    r.unknown = standin_new_stream(false);
    vt_vmm_cuda_config cfg = {.device = 0, .stream = r.main, .beside = r.beside, .n_beside = 2};
    assert_ok(vt_vmm_cuda_open(&cfg, &vmm, NULL));
    assert_ok(vmm->ops->configure(vmm, &rig_geometry));
    return r;
}

static void close_side(side_rig *r)
{
    vmm->ops->close(vmm);
    vmm = r->first;
    standin_drop_stream(r->main);
    standin_drop_stream(r->beside[0]);
    standin_drop_stream(r->beside[1]);
    standin_drop_stream(r->unknown);
}

FX_TEST(test_a_ticket_covers_all_streams)
{
    side_rig r = open_side();
    void *streams[] = {r.main, r.beside[0], r.beside[1]};
    for (int i = 0; i < 3; i++) {
        uint64_t before = fence();
        standin_launch(streams[i], 0, 0, 0);
        uint64_t ticket = fence();
        standin_launch(streams[(i + 1) % 3], 0, 0, 0); // later work does not hold it up
        standin_launch(r.unknown, 0, 0, 0);
        assert_true(passed(before, false));
        assert_false(passed(ticket, false));
        uint64_t later = fence();
        standin_end_kernels(streams[i], 1);
        assert_false(passed(later, false));
        assert_true(passed(ticket, true));
        standin_end_kernels(streams[(i + 1) % 3], 1);
        assert_true(passed(later, false));
        standin_end_kernels(r.unknown, 1);
    }
    close_side(&r);
}

// The event may go at once, and tickets of before do not wait for it.
FX_TEST(test_a_ticket_waits_for_events)
{
    void *unknown = standin_new_stream(false);
    standin_launch(NULL, 0, 0, 0);
    uint64_t before = fence();
    standin_launch(unknown, 0, 0, 0);
    void *event = standin_new_event(unknown);
    assert_ok(vt_vmm_cuda_await(vmm, event));
    standin_drop_event(event);
    standin_launch(unknown, 0, 0, 0); // behind the event
    uint64_t after = fence();
    standin_end_kernels(NULL, 1);
    assert_true(passed(before, false));
    assert_false(passed(after, false));
    standin_end_kernels(unknown, 1);
    assert_true(passed(after, false));
    standin_launch(NULL, 0, 0, 0); // the first stream still counts
    after = fence();
    assert_false(passed(after, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(after, true));
    standin_end_kernels(unknown, 1);
    standin_drop_stream(unknown);
}

// Marks are in another stream from then on; those of before come first nevertheless.
FX_TEST(test_tickets_stay_in_order_when_events_come)
{
    void *event = standin_new_event(NULL);
    standin_launch(NULL, 0, 0, 0);
    uint64_t before = fence();
    assert_ok(vt_vmm_cuda_await(vmm, event));
    uint64_t after = fence();
    assert_false(passed(after, false));
    assert_false(passed(before, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(after, false));
    uint64_t queries = standin_calls("cuEventQuery");
    assert_true(passed(before, false)); // the later one answers for it
    assert_int_equal(standin_calls("cuEventQuery"), queries);
    standin_drop_event(event);
}

FX_TEST(test_only_a_gpu_awaits_events)
{
    static const vt_vmm_ops no_ops;
    vt_vmm other = {&no_ops};
    assert_int_equal(vt_vmm_cuda_await(&other, NULL), VT_EINVAL);
}

// Queued work would become a part of the graph.
FX_TEST(test_nothing_is_queued_into_a_capture)
{
    side_rig r = open_side();
    create_filled(0, 2, 's');
    assert_ok(map(0, 0, 1, 1));
    standin_capture(r.main, true);
    standin_report before = standin_look();
    assert_int_equal(fetch_queued(0, 0), VT_EDEVICE);
    assert_int_equal(vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_QUEUED), VT_EDEVICE);
    standin_report after = standin_look();
    assert_memory_equal(&before, &after, sizeof before);
    assert_ok(vmm->ops->zero(vmm, place(0), 1, VT_VMM_NOW));
    standin_capture(r.main, false);
    assert_ok(fetch_queued(0, 0));
    assert_true(passed(fence(), true));
    assert_bytes(place(0), 's', SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    close_side(&r);
}

// The default stream is unusable while a stream that it is ordered with is captured.
FX_TEST(test_nothing_is_queued_beside_a_blocking_capture)
{
    void *blocking = standin_new_stream(true), *other = standin_new_stream(false);
    create_filled(0, 1, 's');
    assert_ok(map(0, 0, 0, 1));
    standin_capture(blocking, true);
    assert_int_equal(vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_QUEUED), VT_EDEVICE);
    uint64_t ticket = fence();
    assert_false(passed(ticket, false));
    standin_capture(blocking, false);
    assert_true(passed(ticket, false));
    standin_capture(other, true); // this one is not
    assert_ok(vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_QUEUED));
    standin_capture(other, false);
    standin_settle();
    assert_bytes(place(0), 0, SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    standin_drop_stream(blocking);
    standin_drop_stream(other);
}

// What is captured is not submitted, and the driver cannot say what was submitted before.
FX_TEST(test_a_ticket_outlasts_a_capture)
{
    side_rig r = open_side();
    void *streams[] = {r.main, r.beside[0]};
    for (int i = 0; i < 2; i++) {
        bool is_passed = true;
        uint64_t before = fence();
        standin_capture(streams[i], true);
        uint64_t ticket = fence();
        assert_true(passed(before, true));
        assert_false(passed(ticket, false));
        assert_int_equal(vmm->ops->passed(vmm, ticket, true, &is_passed), VT_EDEVICE);
        assert_false(is_passed);
        standin_capture(streams[i], false);
        assert_true(passed(ticket, true));
    }
    close_side(&r);
}

static void *captured_late;

static void begin_late_capture(void)
{
    standin_capture(captured_late, true);
}

// It begins after the stream was asked: the event goes into the graph and marks nothing.
FX_TEST(test_a_capture_may_begin_at_any_moment)
{
    side_rig r = open_side();
    void *streams[] = {r.main, r.beside[0]};
    for (int i = 0; i < 2; i++) {
        captured_late = streams[i];
        standin_launch(captured_late, 0, 0, 0);
        standin_before(i == 0 ? "cuEventRecord" : "cuStreamWaitEvent", begin_late_capture);
        uint64_t records = standin_calls("cuEventRecord");
        uint64_t ticket = fence();
        assert_true(standin_calls("cuEventRecord") > records);
        assert_false(passed(ticket, false));
        standin_capture(captured_late, false);
        assert_false(passed(ticket, false));
        standin_end_kernels(captured_late, 1);
        assert_true(passed(ticket, true));
    }
    close_side(&r);
}

// The newest mark of a full ring is set again, and goes into the graph; its own ticket needs it no
// less.
FX_TEST(test_a_full_ring_survives_a_capture)
{
    vt_vmm *first = vmm;
    uint64_t ticket[65];
    captured_late = standin_new_stream(false);
    vt_vmm_cuda_config cfg = {.device = 0, .stream = captured_late};
    assert_ok(vt_vmm_cuda_open(&cfg, &vmm, NULL));
    for (int i = 0; i < 65; i++) {
        standin_launch(captured_late, 0, 0, 0);
        if (i == 64) standin_before("cuEventRecord", begin_late_capture);
        ticket[i] = fence();
    }
    standin_end_kernels(captured_late, 64);
    assert_true(passed(ticket[62], false));
    assert_false(passed(ticket[63], false)); // nothing can be known of it now
    standin_capture(captured_late, false);
    assert_false(passed(ticket[63], false)); // its mark is behind the last kernel
    standin_end_kernels(captured_late, 1);
    assert_true(passed(ticket[63], true));
    assert_true(passed(ticket[64], true));
    vmm->ops->close(vmm);
    vmm = first;
    standin_drop_stream(captured_late);
}

// What a mapper does, in its own thread, whose mode is the usual one.
static vt_status work_as_a_mapper(void)
{
    uint64_t sum, ticket = awaited;
    bool is_passed;
    vt_status st = vmm->ops->create(vmm, 8, 2);
    if (st == VT_OK) st = map(16, 0, 8, 2);
    if (st == VT_OK) st = vmm->ops->zero(vmm, place(16), SLICE, VT_VMM_NOW);
    if (st == VT_OK) st = vmm->ops->fetch(vmm, place(17), 0, 8, 0, SLICE, VT_VMM_NOW);
    if (st == VT_OK) st = vmm->ops->swap_write(vmm, 0, place(16), SLICE, &sum);
    if (st == VT_OK) st = vmm->ops->swap_read(vmm, place(17), 0, SLICE, &sum);
    vmm->ops->swap_drop(vmm, 0, SLICE);
    if (st == VT_OK) st = unmap(16, 2);
    if (st == VT_OK) st = vmm->ops->destroy(vmm, 8, 2);
    if (st == VT_OK) st = vmm->ops->passed(vmm, ticket, true, &is_passed);
    return standin_capture_mode() == 0 ? st : VT_EINVAL;
}

// A stream that the backend does not know is captured in global mode meanwhile, which the driver
// would break if a call were made in the usual mode.
FX_TEST(test_no_call_breaks_a_capture)
{
    errand e;
    side_rig r = open_side();
    create_filled(0, 1, 's');
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    standin_capture(r.unknown, true);
    awaited = fence();
    send(&e, work_as_a_mapper);
    assert_ok(map(0, 0, 0, 1));
    assert_ok(fetch_queued(0, 0));
    assert_ok(vmm->ops->zero(vmm, place(0), 1, VT_VMM_QUEUED));
    assert_true(passed(fence(), true));
    assert_ok(vmm->ops->zero(vmm, place(0), 1, VT_VMM_NOW));
    meet(&e);
    assert_int_equal(standin_look().n_breach, 0);
    assert_int_equal(standin_capture_mode(), 0);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    vt_vmm *second = vmm;
    assert_ok(open_vmm()); // opening and closing neither
    vmm->ops->close(vmm);
    vmm = second;
    standin_capture(r.unknown, false);
    close_side(&r);
}

FX_RUN_EACH(test_vt_cuda_order, rig_setup, rig_teardown)
