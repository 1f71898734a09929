// What libibverbs promises beyond its calls' own answers (V-*, STAT-*), and what a card says that has not got a
// feature: by two QPs of one card that are connected with each other. Prints a line for each statement that does not
// hold.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "statements.h"

#define ABSENT(error) ((error) == EOPNOTSUPP || (error) == ENOSYS)

#define NONE(statement, call)    HOLDS(statement, (errno = 0, (call) == NULL) && ABSENT(errno))
#define REFUSED(statement, call) HOLDS(statement, ABSENT(call))

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_port_attr port;
static union ibv_gid gid;
static char *memory;
static struct ibv_mr *mr;

static struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 32}};
}

static struct ibv_qp *fresh(void)
{
	struct ibv_qp_init_attr init = queues();
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	HOLDS("V-110", qp != NULL);
	HOLDS("V-119", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void receives(struct ibv_qp *qp, int at)
{
	struct ibv_sge sge = {(uintptr_t)memory + at, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = at, .sg_list = &sge, .num_sge = 1}, *bad;

	HOLDS("V-165", !ibv_post_recv(qp, &wr, &bad));
}

static void connects(struct ibv_qp *qp, struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .dlid = port.lid, .port_num = 1,
			.grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}};

	HOLDS("V-119", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
		| IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1};
	HOLDS("V-119", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
		| IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void sends(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int id, int flags, const char *data, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)data, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.wr.rdma = {(uintptr_t)memory + 2048, rkey}}, *bad;

	HOLDS("V-166", !ibv_post_send(qp, &wr, &bad));
}

static struct ibv_wc next(void)
{
	struct ibv_wc wc = {0};
	int found;

	while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	HOLDS("V-66", found == 1);
	return wc;
}

static void opens(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	HOLDS("V-20", list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	HOLDS("V-5, V-25", context != NULL);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	HOLDS("V-35", pd && cq && mr && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 1, &gid));
}

static void closes(void)
{
	HOLDS("V-132", !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

// V-2: what a child opens is its own, while its parent's is open; that its parent's is closed in it harms nobody.
static int child_opens(void)
{
	struct ibv_context *inherited = context;
	struct ibv_qp *qp;

	wrong = 0;
	opens();
	HOLDS("V-2", context != inherited);
	qp = fresh();
	connects(qp, qp);
	strcpy(memory, "child's");
	sends(qp, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED, memory, mr->rkey);
	HOLDS("V-2", next().status == IBV_WC_SUCCESS && !strcmp(memory + 2048, "child's"));
	HOLDS("V-121", !ibv_destroy_qp(qp));
	closes();
	ibv_close_device(inherited);
	fflush(stdout);
	return wrong != 0;
}

static void traffic(void)
{
	struct ibv_qp *one = fresh(), *two = fresh();
	struct ibv_wc wc, other;
	pid_t child;
	int status;

	receives(two, 1024); // V-169: before RTR
	connects(one, two);
	connects(two, one);
	strcpy(memory, "inline!");
	sends(one, IBV_WR_SEND, 1, IBV_SEND_INLINE | IBV_SEND_SIGNALED, memory, 0);
	strcpy(memory, "changed");
	wc = next();
	other = next();
	HOLDS("V-169 what was posted in INIT receives", wc.status == IBV_WC_SUCCESS && other.status == IBV_WC_SUCCESS
		&& wc.wr_id + other.wr_id == 1025);
	HOLDS("V-168 inline data may be reused at return", !strcmp(memory + 1024, "inline!"));

	// V-12, V-13: a child that touches nothing and ends leaves the parent as it was, without ibv_fork_init.
	child = fork();
	if (child == 0)
		_exit(0);
	HOLDS("V-13", waitpid(child, &status, 0) == child && status == 0);
	HOLDS("V-11, V-15: nothing has to be marked", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(child_opens());
	HOLDS("V-2", waitpid(child, &status, 0) == child && status == 0 && strcmp(memory, "child's"));
	receives(two, 1024);
	sends(one, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, memory, 0);
	wc = next();
	other = next();
	HOLDS("V-12, MEM-22 the parent goes on", wc.status == IBV_WC_SUCCESS && other.status == IBV_WC_SUCCESS
		&& !strcmp(memory + 1024, "changed"));

	// Neither is signaled: the first fails at the other side.
	sends(one, IBV_WR_RDMA_WRITE, 3, 0, memory, 0x12345678);
	sends(one, IBV_WR_RDMA_WRITE, 4, 0, memory, mr->rkey);
	wc = next();
	HOLDS("STAT-2 an error always completes", wc.wr_id == 3 && wc.status == IBV_WC_REM_ACCESS_ERR);
	wc = next();
	HOLDS("STAT-1 all that follow fail", wc.wr_id == 4 && wc.status == IBV_WC_WR_FLUSH_ERR);
	sends(one, IBV_WR_RDMA_WRITE, 5, 0, memory, mr->rkey);
	wc = next();
	HOLDS("STAT-1 what is posted later, too", wc.wr_id == 5 && wc.status == IBV_WC_WR_FLUSH_ERR);

	// V-122: completions of a QP that is destroyed are nobody's; the CQ serves the next one.
	sends(one, IBV_WR_RDMA_WRITE, 6, IBV_SEND_SIGNALED, memory, mr->rkey);
	HOLDS("V-121", !ibv_destroy_qp(one) && !ibv_destroy_qp(two));
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		HOLDS("V-122", wc.wr_id == 6 || wc.status != IBV_WC_SUCCESS);
	one = fresh();
	connects(one, one);
	sends(one, IBV_WR_RDMA_WRITE, 7, IBV_SEND_SIGNALED, memory, mr->rkey);
	wc = next();
	HOLDS("V-122", wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS && !strcmp(memory + 2048, "changed"));
	HOLDS("V-121", !ibv_destroy_qp(one));
}

// A WRITE on a CQ that is moderated, has no overrun and tells the time of day; then one out of a null region.
static void moderated(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq_init_attr_ex init = {.cqe = 4, .channel = channel, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &init);
	struct ibv_modify_cq_attr modify = {IBV_CQ_ATTR_MODERATE, {4, 100}};
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_cq *shared = cq, *got;
	void *of;

	HOLDS("V-31", !ibv_query_device_ex(context, NULL, &attr));
	HOLDS("V-64", attr.cq_mod_caps.max_cq_count == 0xffff && attr.cq_mod_caps.max_cq_period == 0xffff);
	HOLDS("V-58", ex != NULL);
	cq = ibv_cq_ex_to_cq(ex);
	HOLDS("V-64", !ibv_modify_cq(cq, &modify));
	modify.attr_mask = IBV_CQ_ATTR_RESERVED;
	HOLDS("V-64", ibv_modify_cq(cq, &modify) == EINVAL);
	struct ibv_qp *one = fresh(), *two = fresh();
	connects(one, two);
	connects(two, one);
	HOLDS("V-67", !ibv_req_notify_cq(cq, 0));
	uint64_t before_ns = time(NULL) * 1000000000ull;
	sends(one, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, memory, mr->rkey);
	HOLDS("V-64", !ibv_get_cq_event(channel, &got, &of) && got == cq);
	ibv_ack_cq_events(cq, 1);
	HOLDS("V-60", !ibv_start_poll(ex, &poll) && ex->wr_id == 1 && ex->status == IBV_WC_SUCCESS);
	uint64_t at_ns = ibv_wc_read_completion_wallclock_ns(ex), minute_ns = 60 * 1000000000ull;
	HOLDS("V-59", at_ns > before_ns - minute_ns && at_ns < before_ns + minute_ns);
	ibv_end_poll(ex);

	struct ibv_mr *null = ibv_alloc_null_mr(pd), *real = mr;
	HOLDS("V-133", null != NULL);
	HOLDS("V-131", ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) != 0);
	memset(memory + 2048, 7, 16);
	mr = null;
	sends(one, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, memory, real->rkey);
	mr = real;
	while (ibv_start_poll(ex, &poll) == ENOENT)
		;
	HOLDS("V-133", ex->wr_id == 2 && ex->status == IBV_WC_SUCCESS);
	ibv_end_poll(ex);
	HOLDS("V-133", !memcmp(memory + 2048, "\0\0\0\0\0\0\0\0\7\7\7\7\7\7\7\7", 16));
	HOLDS("V-133", !ibv_dereg_mr(null));
	HOLDS("V-121", !ibv_destroy_qp(one) && !ibv_destroy_qp(two));
	HOLDS("V-65", !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	cq = shared;
}

// Memory of the card: what there is of it, and what cannot be had.
static void device_memory(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_alloc_dm_attr whole = {.comp_mask = 0}, one = {.length = 4, .log_align_req = 3};
	const int access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	char in[64] = "device memory", out[64] = "";
	struct ibv_mr *region;
	struct ibv_dm *dm;

	HOLDS("V-31, V-77", !ibv_query_device_ex(context, NULL, &attr) && attr.max_dm_size >= 4096);
	whole.length = attr.max_dm_size;
	dm = ibv_alloc_dm(context, &whole);
	HOLDS("V-77", dm != NULL);
	HOLDS("V-77: none left", (errno = 0, ibv_alloc_dm(context, &one) == NULL) && errno == ENOMEM);
	HOLDS("V-79", !ibv_memcpy_to_dm(dm, 128, in, sizeof in) && !ibv_memcpy_from_dm(out, dm, 128, sizeof out));
	HOLDS("V-79", !memcmp(in, out, sizeof in));
	HOLDS("V-79", ibv_memcpy_to_dm(dm, whole.length, in, 4) == EINVAL);
	HOLDS("V-80: ZERO_BASED", (errno = 0, ibv_reg_dm_mr(pd, dm, 0, 64, access & ~IBV_ACCESS_ZERO_BASED) == NULL)
		&& errno == EINVAL);
	region = ibv_reg_dm_mr(pd, dm, 128, 64, access);
	HOLDS("V-80, MEM-19", region != NULL && region->addr == NULL && region->length == 64);
	HOLDS("V-78: a region uses it", ibv_free_dm(dm) == EBUSY);
	HOLDS("V-78", !ibv_dereg_mr(region) && !ibv_free_dm(dm));
}

// What this card has not got says so in the device's attributes, and by the call.
static void absent(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_counters_init_attr counters = {0};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_qp_init_attr init = queues();
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq, .cap = init.cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = IBV_QP_CREATE_SOURCE_QPN,
		.source_qpn = 5};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} flow = {{.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof flow, .num_of_specs = 1, .port = 1},
		{.type = IBV_FLOW_SPEC_ETH, .size = sizeof flow.eth}};
	struct ibv_qp *qp = fresh();

	HOLDS("V-31", !ibv_query_device_ex(context, NULL, &attr));
	NONE("V-85, V-86: they count for rules (test_raw.py has them)", ibv_create_counters(context, &counters));
	HOLDS("V-90", attr.max_wq_type_rq == 0 && attr.rss_caps.supported_qpts == 0);
	HOLDS("V-90 to V-92: frames are function 0's alone (flows.rs has WQs)",
		(errno = 0, ibv_create_wq(context, &wq) == NULL) && errno == EPERM);
	HOLDS("V-95", attr.rss_caps.rx_hash_function == 0 && attr.rss_caps.rx_hash_fields_mask == 0);
	NONE("V-93, V-94: no table to destroy", ibv_create_rwq_ind_table(context, &table));
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	REFUSED("V-134", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	HOLDS("V-155", !(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING));
	HOLDS("V-155 to V-159: rules are function 0's alone (test_raw.py has them)",
		(errno = 0, ibv_create_flow(qp, &flow.attr) == NULL) && errno == EPERM);
	HOLDS("V-115", (errno = 0, ibv_create_qp_ex(context, &ex) == NULL) && errno != 0);
	HOLDS("V-121", !ibv_destroy_qp(qp));
}

// P_Keys and their tables, those of alternate paths, and what a card says that has no groups of raw frames.
static void partitions_and_groups(void)
{
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init = queues();
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq, .cap = init.cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
	struct ibv_qp *qp = fresh();
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .dlid = port.lid, .port_num = 1,
			.grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}, .alt_port_num = 1, .alt_pkey_index = 0};
	const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
		| IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	union ibv_gid group = {.raw = {0xff, 0x12}};
	uint16_t pkey, first;
	int alternate;

	attr.alt_ah_attr = attr.ah_attr;
	HOLDS("V-30", !ibv_query_device(context, &device));
	HOLDS("KEY-10, KEY-11", !ibv_query_pkey(context, 1, 0, &first) && first == htons(0xffff) && port.pkey_tbl_len == 32);
	for (int index = 0; index < port.pkey_tbl_len; index++) {
		HOLDS("KEY-22 index to key", !ibv_query_pkey(context, 1, index, &pkey));
		HOLDS("KEY-22 key to index: the first that has it", ibv_get_pkey_index(context, 1, pkey) == (index != 0));
		HOLDS("KEY-9 an empty entry", index == 0 || pkey == 0);
	}
	HOLDS("KEY-22 a key that the table has not", ibv_get_pkey_index(context, 1, htons(0x8123)) == -1);
	HOLDS("KEY-15, KEY-25", (device.device_cap_flags & IBV_DEVICE_BAD_PKEY_CNTR)
		&& (device.device_cap_flags & IBV_DEVICE_BAD_QKEY_CNTR) && !port.bad_pkey_cntr && !port.qkey_viol_cntr);
	attr.alt_pkey_index = port.pkey_tbl_len;
	HOLDS("KEY-18: an index that the table has not", ibv_modify_qp(qp, &attr, to_rtr | IBV_QP_ALT_PATH));
	attr.alt_pkey_index = 1;
	alternate = device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG ? IBV_QP_ALT_PATH : 0;
	HOLDS("KEY-18: a P_Key of the alternate path", !ibv_modify_qp(qp, &attr, to_rtr | alternate));
	NONE("MC-9: what a group hears of itself cannot be kept from it", ibv_create_qp_ex(context, &ex));
	HOLDS("MC-19: no groups of raw frames", !(device.device_cap_flags & IBV_DEVICE_RAW_MULTI));
	HOLDS("MC-1, MC-19", ibv_attach_mcast(qp, &group, 0xc001) == EINVAL);
	HOLDS("V-121", !ibv_destroy_qp(qp));
}

// V-4: an errno says little; with IBV_SHOW_WARNINGS the reason goes to standard error.
static void diagnostics(void)
{
	int ends[2], kept = dup(2);
	char said[512] = {0};
	int busy;

	HOLDS("V-4", pipe(ends) == 0 && dup2(ends[1], 2) == 2);
	busy = ibv_dealloc_pd(pd);
	HOLDS("V-4", dup2(kept, 2) == 2 && close(ends[1]) == 0 && close(kept) == 0);
	HOLDS("V-4 who says it, and why", busy == EBUSY && read(ends[0], said, sizeof said - 1) > 0
		&& !strncmp(said, "libibverbs: ", 12) && strstr(said, "InUse"));
	close(ends[0]);
}

// What only clients in a kernel have (K-*): it has no call here, and no capability promises it.
static void of_the_kernel(void)
{
	static const char *const none[] = {"ibv_register_client", "ibv_modify_ah", "ibv_query_ah", "ibv_get_dma_mr",
		"ibv_reg_phys_mr", "ibv_query_mr", "ibv_alloc_fmr", "ibv_peek_cq", "ibv_req_ncomp_notif"};
	struct ibv_qp_init_attr management = queues();
	struct ibv_device_attr attr;
	struct ibv_qp *qp;
	union ibv_gid found;
	int index = -1;

	HOLDS("V-30", !ibv_query_device(context, &attr));
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		HOLDS("K-1 to K-4, V-71", !dlsym(RTLD_DEFAULT, none[i]));
	HOLDS("V-71 no event for so many completions", !(attr.device_cap_flags & IBV_DEVICE_N_NOTIFY_CQ));
	HOLDS("K-3 no fast registration by translation slots", attr.max_fmr == 0 && attr.max_map_per_fmr == 0);
	// K-1: what ib_find_gid and ib_find_pkey search for is found by asking for each entry.
	for (int i = 0; i < port.gid_tbl_len && index < 0; i++)
		if (!ibv_query_gid(context, 1, i, &found) && !memcmp(&found, &gid, sizeof gid))
			index = i;
	HOLDS("K-1", index == 1 && ibv_get_pkey_index(context, 1, htons(0xffff)) == 0
		&& ibv_get_pkey_index(context, 1, htons(0x1234)) == -1);
	management.qp_type = 1;
	qp = ibv_create_qp(pd, &management);
	HOLDS("K-5 the type of QP1 is the kernel's number, and makes QP1", qp && qp->qp_num == 1);
	HOLDS("V-121", !ibv_destroy_qp(qp));
	HOLDS("K-7 XRC is for programs", attr.device_cap_flags & IBV_DEVICE_XRC);
}

int main(void)
{
	setenv("IBV_SHOW_WARNINGS", "1", 1);
	// V-5, V-14: any value, and no harm.
	setenv("RDMAV_FORK_SAFE", "0", 1);
	setenv("IBV_FORK_SAFE", "no", 1);
	setenv("RDMAV_HUGEPAGES_SAFE", "1", 1);
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	memory = aligned_alloc(4096, 4096);
	opens();
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		HOLDS("V-37, V-38: fields of InfiniBand alone", !port.lid && !port.sm_lid && !port.lmc && !port.sm_sl
			&& !port.subnet_timeout && !port.init_type_reply && (port.flags & IBV_QPF_GRH_REQUIRED));
	else
		HOLDS("V-37", port.lid && port.max_vl_num);
	traffic();
	moderated();
	device_memory();
	absent();
	partitions_and_groups();
	diagnostics();
	of_the_kernel();
	closes();
	printf("%d asked, %d do not hold\n", asked, wrong);
	return wrong != 0;
}
