// What the transport promises to whoever modifies a QP or posts to it, by two QPs of one card that are connected with
// each other: ACC-1, every row of the tables QPS-T-RC, QPS-T-UC and QPS-T-UD; ACC-3, every cell of the matrix of
// operations and services (section 6.2); and the statements about memory, keys and limits that a program can ask for.
// Prints a line for each statement that does not hold.
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>

#include "statements.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define QKEY 0x22222222 // QPS-25

static struct ibv_context *context;
static struct ibv_device_attr_ex device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_port_attr port;
static union ibv_gid gid;
static bool ethernet;

// ---- QPs in a state --------------------------------------------------------------------------------------------

enum {
	STATE = IBV_QP_STATE, CUR = IBV_QP_CUR_STATE, NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY, ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX, PORT = IBV_QP_PORT, Q_KEY = IBV_QP_QKEY, AV = IBV_QP_AV, MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT, RETRY = IBV_QP_RETRY_CNT, RNR = IBV_QP_RNR_RETRY, RQ_PSN = IBV_QP_RQ_PSN,
	RD = IBV_QP_MAX_QP_RD_ATOMIC, ALT = IBV_QP_ALT_PATH, MIN_RNR = IBV_QP_MIN_RNR_TIMER, SQ_PSN = IBV_QP_SQ_PSN,
	DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC, MIG = IBV_QP_PATH_MIG_STATE, DEST = IBV_QP_DEST_QPN,
	LAST_BIT = 20, // the highest one of section 8.1 that is not a rate limit
};

static struct ibv_qp_attr attributes(enum ibv_qp_state from, enum ibv_qp_state to, uint32_t dest)
{
	struct ibv_ah_attr path = {.is_global = 1, .dlid = port.lid, .port_num = 1,
		.grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}};

	return (struct ibv_qp_attr){.qp_state = to, .cur_qp_state = from, .path_mtu = IBV_MTU_1024, .qkey = QKEY,
		.dest_qp_num = dest, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
			| IBV_ACCESS_REMOTE_ATOMIC, .cap = {8, 8, 1, 1, 0}, .port_num = 1, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.alt_port_num = 1, .alt_timeout = 15, .path_mig_state = IBV_MIG_MIGRATED,
		.ah_attr = path, .alt_ah_attr = path};
}

static struct ibv_xrcd *xrcd;

static struct ibv_qp *created(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd, .xrcd = xrcd,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	HOLDS("V-110", qp != NULL);
	return qp;
}

// What each step asks for (section 8.2; XRC and raw packets: QPS-20).
static int required(enum ibv_qp_type type, enum ibv_qp_state to)
{
	bool initiator = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	bool target = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;

	if (type == IBV_QPT_RAW_PACKET)
		return to == IBV_QPS_INIT ? STATE | PORT : STATE;
	if (type == IBV_QPT_UD)
		return to == IBV_QPS_INIT ? STATE | PKEY | PORT | Q_KEY : to == IBV_QPS_RTS ? STATE | SQ_PSN : STATE;
	switch (to) {
	case IBV_QPS_INIT:
		return STATE | PKEY | PORT | ACCESS;
	case IBV_QPS_RTR:
		return STATE | AV | MTU | DEST | RQ_PSN | (target ? DEST_RD | MIN_RNR : 0);
	case IBV_QPS_RTS:
		return STATE | SQ_PSN | (initiator ? TIMEOUT | RETRY | RNR | RD : target ? TIMEOUT : 0);
	default:
		return STATE;
	}
}

static int steps(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest)
{
	static const enum ibv_qp_state path[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
	int error = 0;

	for (unsigned at = 1; at < COUNT(path) && path[at - 1] != to && !error; at++) {
		struct ibv_qp_attr attr = attributes(path[at - 1], path[at], dest);
		error = ibv_modify_qp(qp, &attr, required(qp->qp_type, path[at]));
	}
	return error;
}

static struct ibv_wc next(void)
{
	struct ibv_wc wc = {0};

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	return wc;
}

static struct ibv_qp_attr asked_for(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	memset(&attr, 0, sizeof attr);
	HOLDS("V-120", !ibv_query_qp(qp, &attr, (1 << (LAST_BIT + 1)) - 1, &init));
	return attr;
}

static void wait_for(struct ibv_qp *qp, enum ibv_qp_state state)
{
	while (asked_for(qp).qp_state != state)
		;
}

// SQE comes by itself (QPS-12): a send whose key nobody has.
static void into_sqe(struct ibv_qp *qp, struct ibv_ah *ah)
{
	struct ibv_sge sge = {4096, 8, 0x00ffff00};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, 5, QKEY}}, *bad;

	HOLDS("V-166", !ibv_post_send(qp, &wr, &bad) && next().status == IBV_WC_LOC_PROT_ERR);
	wait_for(qp, IBV_QPS_SQE);
}

static struct ibv_ah *ah;

static void anew(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t dest)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	HOLDS("QPS-2: any state to RESET", !ibv_modify_qp(qp, &reset, STATE));
	HOLDS("QPS-T", !steps(qp, state, dest));
}

// Connected with itself.
static void into(struct ibv_qp *qp, enum ibv_qp_state state)
{
	anew(qp, state == IBV_QPS_SQE ? IBV_QPS_RTS : state, qp->qp_num);
	if (state == IBV_QPS_SQE)
		into_sqe(qp, ah);
	while (state == IBV_QPS_SQD && asked_for(qp).sq_draining)
		;
}

// ---- ACC-1: the tables of section 8.2 ------------------------------------------------------------------------------

struct row {
	enum ibv_qp_state from, to;
	int required, optional;
};

#define S(name) IBV_QPS_##name

static const struct row ud_rows[] = {
	{S(RESET), S(INIT), STATE | PKEY | PORT | Q_KEY, 0},
	{S(INIT), S(INIT), 0, PKEY | PORT | Q_KEY},
	{S(INIT), S(RTR), STATE, PKEY | Q_KEY},
	{S(RTR), S(RTS), STATE | SQ_PSN, CUR | Q_KEY},
	{S(RTS), S(RTS), 0, CUR | Q_KEY},
	{S(RTS), S(SQD), STATE, NOTIFY},
	{S(SQD), S(RTS), STATE, CUR | Q_KEY},
	{S(SQD), S(SQD), 0, PKEY | Q_KEY},
	{S(SQE), S(RTS), STATE, CUR | Q_KEY},
};

static const struct row uc_rows[] = {
	{S(RESET), S(INIT), STATE | PKEY | PORT | ACCESS, 0},
	{S(INIT), S(INIT), 0, PKEY | PORT | ACCESS},
	{S(INIT), S(RTR), STATE | MTU | AV | DEST | RQ_PSN, PKEY | ALT | ACCESS},
	{S(RTR), S(RTS), STATE | SQ_PSN, CUR | ACCESS | ALT | MIG},
	{S(RTS), S(RTS), 0, CUR | ACCESS | ALT | MIG},
	{S(RTS), S(SQD), STATE, NOTIFY},
	{S(SQD), S(RTS), STATE, CUR | ACCESS | ALT | MIG},
	{S(SQD), S(SQD), 0, PKEY | ACCESS | AV | ALT | MIG},
	{S(SQE), S(RTS), STATE, CUR | ACCESS},
};

static const struct row rc_rows[] = {
	{S(RESET), S(INIT), STATE | PKEY | PORT | ACCESS, 0},
	{S(INIT), S(INIT), 0, PKEY | PORT | ACCESS},
	{S(INIT), S(RTR), STATE | AV | MTU | DEST | RQ_PSN | DEST_RD | MIN_RNR, PKEY | ACCESS | ALT},
	{S(RTR), S(RTS), STATE | SQ_PSN | TIMEOUT | RETRY | RNR | RD, CUR | ACCESS | MIN_RNR | ALT | MIG},
	{S(RTS), S(RTS), 0, CUR | ACCESS | MIN_RNR | ALT | MIG},
	{S(RTS), S(SQD), STATE, NOTIFY},
	{S(SQD), S(RTS), STATE, CUR | ACCESS | MIN_RNR | ALT | MIG},
	{S(SQD), S(SQD), 0, PKEY | PORT | ACCESS | AV | RD | MIN_RNR | ALT | TIMEOUT | RETRY | RNR | DEST_RD | MIG},
};

#define NAMED(text, size, service, row, bit) \
	(snprintf(text, size, "%s, %d to %d, bit %#x", service, (row)->from, (row)->to, bit), text)

// QPS-19 and QPS-22: what is optional only of a device that says it can.
static int able(const struct row *row)
{
	int flags = device.orig_attr.device_cap_flags, optional = row->optional;

	if (!(flags & IBV_DEVICE_AUTO_PATH_MIG))
		optional &= ~(ALT | MIG);
	if (!(flags & IBV_DEVICE_CHANGE_PHY_PORT) && row->from == S(SQD))
		optional &= ~PORT;
	if (!(flags & IBV_DEVICE_CURR_QP_STATE_MOD))
		optional &= ~CUR;
	return optional;
}

// QPS-18: refused, and nothing has changed.
static void refused(struct ibv_qp *qp, const struct row *row, int mask, const char *what)
{
	struct ibv_qp_attr before = asked_for(qp), attr = attributes(row->from, row->to, qp->qp_num), after;
	int error = ibv_modify_qp(qp, &attr, mask);

	after = asked_for(qp);
	HOLDS(what, error == EINVAL || error == EOPNOTSUPP);
	HOLDS(what, !memcmp(&before, &after, sizeof after));
}

static void one_row(struct ibv_qp *qp, const char *service, const struct row *row)
{
	int optional = able(row);
	char text[80];

	into(qp, row->from);
	for (int bit = 1; bit <= 1 << LAST_BIT; bit <<= 1) {
		if (row->required & bit && row->required != STATE)
			refused(qp, row, row->required & ~bit, NAMED(text, sizeof text, service, row, bit));
		else if (!((row->required | optional) & bit) && bit != STATE)
			refused(qp, row, row->required | bit, NAMED(text, sizeof text, service, row, bit));
	}
	for (int bit = 0; bit <= 1 << LAST_BIT; bit = bit ? bit << 1 : 1) {
		if (bit && !(optional & bit))
			continue;
		struct ibv_qp_attr attr = attributes(row->from, row->to, qp->qp_num);
		int mask = row->required | bit;
		into(qp, row->from);
		NAMED(text, sizeof text, service, row, bit);
		HOLDS(text, !ibv_modify_qp(qp, &attr, mask) && asked_for(qp).qp_state == row->to);
	}
	// QPS-2: from everywhere to ERR and to RESET, with the state alone.
	struct ibv_qp_attr attr = attributes(row->from, S(ERR), qp->qp_num);
	into(qp, row->from);
	refused(qp, &(struct row){row->from, S(ERR)}, STATE | PKEY, "QPS-2: ERR with more than the state");
	HOLDS("QPS-2", !ibv_modify_qp(qp, &attr, STATE) && asked_for(qp).qp_state == S(ERR));
}

static void tables(void)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
		const struct row *rows;
		int count;
	} services[] = {
		{IBV_QPT_RC, "ACC-1 QPS-T-RC", rc_rows, COUNT(rc_rows)},
		{IBV_QPT_UC, "ACC-1 QPS-T-UC", uc_rows, COUNT(uc_rows)},
		{IBV_QPT_UD, "ACC-1 QPS-T-UD", ud_rows, COUNT(ud_rows)},
	};
	struct ibv_wc wc;

	for (unsigned at = 0; at < COUNT(services); at++) {
		struct ibv_qp *qp = created(services[at].type);

		for (int row = 0; row < services[at].count; row++)
			one_row(qp, services[at].name, &services[at].rows[row]);
		// QPS-3: what no row names, by whatever mask.
		for (int from = S(RESET); from <= S(SQD); from++)
			for (int to = S(INIT); to <= S(SQE); to++) {
				bool named = false;
				for (int row = 0; row < services[at].count; row++)
					named |= services[at].rows[row].from == from && services[at].rows[row].to == to;
				if (named)
					continue;
				into(qp, from);
				refused(qp, &(struct row){from, to}, required(services[at].type, to), "QPS-3");
			}
		HOLDS("V-121", !ibv_destroy_qp(qp));
	}
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

// ---- ACC-3: every operation on every service -----------------------------------------------------------------------

// ABSENT: in the table, and not in this card, which says so. REFUSED: it goes out, and the peer refuses it.
enum cell {NO, YES, ABSENT, REFUSED};

static const enum ibv_qp_type types[] = {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET};

// Section 6.2. SEND_WITH_INV of UC has no opcode on the wire (IBA vol1, table of opcodes). That of XRC finds no
// window: the target of a connection binds none.
static const struct {
	enum ibv_wr_opcode opcode;
	enum cell cells[COUNT(types)];
} matrix[] = {
	{IBV_WR_RDMA_WRITE, {NO, YES, YES, YES, NO}},
	{IBV_WR_RDMA_WRITE_WITH_IMM, {NO, YES, YES, YES, NO}},
	{IBV_WR_SEND, {YES, YES, YES, YES, YES}},
	{IBV_WR_SEND_WITH_IMM, {YES, YES, YES, YES, NO}},
	{IBV_WR_RDMA_READ, {NO, NO, YES, YES, NO}},
	{IBV_WR_ATOMIC_CMP_AND_SWP, {NO, NO, YES, YES, NO}},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, {NO, NO, YES, YES, NO}},
	{IBV_WR_LOCAL_INV, {NO, YES, YES, YES, NO}},
	{IBV_WR_BIND_MW, {NO, YES, YES, YES, NO}},
	{IBV_WR_SEND_WITH_INV, {NO, ABSENT, YES, REFUSED, NO}},
	{IBV_WR_TSO, {ABSENT, NO, NO, NO, ABSENT}},
	{IBV_WR_DRIVER1, {NO, NO, NO, NO, NO}},
};

struct ends {
	struct ibv_qp *from, *to; // one and the same for raw packets
	char *memory;             // 0: what is sent; 1024: remote memory; 2048: the receive
	struct ibv_mr *mr;
	struct ibv_mw *bound, *free;
	struct ibv_srq *srq; // of XRC
};

static void receives(struct ends *ends)
{
	struct ibv_sge sge = {(uintptr_t)ends->memory + 2048, 512, ends->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	HOLDS("V-165", !(ends->to->qp_type == IBV_QPT_XRC_RECV ? ibv_post_srq_recv(ends->srq, &wr, &bad)
		: ibv_post_recv(ends->to, &wr, &bad)));
}

// Whose work requests are about windows. A target of XRC posts nothing.
static struct ibv_qp *binder(const struct ends *ends)
{
	return ends->from->qp_type == IBV_QPT_XRC_SEND ? ends->from : ends->to;
}

// A window of type 2 that is bound: for those who invalidate one.
static void binds(struct ends *ends)
{
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = {
		ends->bound, ends->bound->rkey, {ends->mr, (uintptr_t)ends->memory, 64, IBV_ACCESS_REMOTE_WRITE}}}, *bad;

	HOLDS("OP-11", !ibv_post_send(binder(ends), &wr, &bad) && next().status == IBV_WC_SUCCESS);
}

static bool connected(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND;
}

static struct ibv_srq *shared(void)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 8, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = pd,
		.xrcd = xrcd, .cq = cq, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD
			| IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &attr);

	HOLDS("V-102", srq != NULL);
	return srq;
}

static struct ends opened(enum ibv_qp_type type)
{
	struct ends ends = {.memory = aligned_alloc(4096, 4096)};

	memset(ends.memory, 0, 4096);
	ends.mr = ibv_reg_mr(pd, ends.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
		| IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	HOLDS("V-130", ends.mr != NULL);
	if (type == IBV_QPT_XRC_SEND)
		ends.srq = shared();
	ends.from = created(type);
	ends.to = type == IBV_QPT_RAW_PACKET ? ends.from : created(type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type);
	HOLDS("QPS-T", !steps(ends.from, IBV_QPS_RTS, ends.to->qp_num));
	HOLDS("QPS-T", ends.to == ends.from || !steps(ends.to, IBV_QPS_RTS, ends.from->qp_num));
	receives(&ends);
	if (connected(type)) {
		ends.bound = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		ends.free = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		HOLDS("V-135", ends.bound && ends.free);
		binds(&ends);
	}
	return ends;
}

static void closed(struct ends *ends)
{
	struct ibv_wc wc;

	if (ends->to != ends->from)
		HOLDS("V-121", !ibv_destroy_qp(ends->to));
	HOLDS("V-121", !ibv_destroy_qp(ends->from));
	if (ends->srq)
		HOLDS("V-105", !ibv_destroy_srq(ends->srq));
	if (ends->bound)
		HOLDS("V-136", !ibv_dealloc_mw(ends->bound) && !ibv_dealloc_mw(ends->free));
	HOLDS("V-132", !ibv_dereg_mr(ends->mr));
	free(ends->memory);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

static int posts(struct ends *ends, enum ibv_wr_opcode opcode)
{
	// Of a datagram 16 bytes, of a frame its addresses, then a type that nobody has.
	bool frame = ends->from->qp_type == IBV_QPT_RAW_PACKET;
	bool local = opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW, words = opcode == IBV_WR_ATOMIC_CMP_AND_SWP
		|| opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = {(uintptr_t)ends->memory, words ? 8 : frame ? 64 : 16, ends->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = local ? NULL : &sge, .num_sge = !local, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t remote = (uintptr_t)ends->memory + 1024;

	memset(ends->memory, opcode == IBV_WR_RDMA_READ || words ? 0x11 : 0x5a, 64);
	if (ends->from->qp_type == IBV_QPT_XRC_SEND)
		ibv_get_srq_num(ends->srq, &wr.qp_type.xrc.remote_srqn);
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.imm_data = htobe32(77);
	if (opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = ends->bound ? ends->bound->rkey : 0x1234;
	if (opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = ends->free;
		wr.bind_mw.rkey = ends->free ? ends->free->rkey : 0x1234;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ends->mr, remote, 64, IBV_ACCESS_REMOTE_READ};
	} else if (ends->from->qp_type == IBV_QPT_UD) {
		wr.wr.ud = (typeof(wr.wr.ud)){ah, ends->to->qp_num, QKEY};
	} else if (words) {
		wr.wr.atomic = (typeof(wr.wr.atomic)){remote, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 0 : 5, 7, ends->mr->rkey};
	} else {
		wr.wr.rdma = (typeof(wr.wr.rdma)){remote, ends->mr->rkey};
	}
	return ibv_post_send(opcode == IBV_WR_LOCAL_INV ? binder(ends) : ends->from, &wr, &bad);
}

static bool received(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	return type != IBV_QPT_RAW_PACKET && (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM
		|| opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
}

// What a success must have done; `there` is the completion of the receive.
static bool effect(struct ends *ends, enum ibv_wr_opcode opcode, struct ibv_wc there)
{
	volatile char *last = ends->memory + 1024 + 15;
	char *memory = ends->memory, *payload = memory + 2048 + (ends->from->qp_type == IBV_QPT_UD ? 40 : 0);
	uint64_t word;

	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		while (*last != 0x5a)
			; // what is not acknowledged completes when it has left
		return !memcmp(memory, memory + 1024, 16);
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return there.opcode == IBV_WC_RECV_RDMA_WITH_IMM && there.imm_data == htobe32(77)
			&& !memcmp(memory, memory + 1024, 16);
	case IBV_WR_SEND_WITH_INV:
		return there.wc_flags & IBV_WC_WITH_INV && there.invalidated_rkey == ends->bound->rkey;
	case IBV_WR_SEND_WITH_IMM:
		return there.wc_flags & IBV_WC_WITH_IMM && there.imm_data == htobe32(77) && !memcmp(memory, payload, 16);
	case IBV_WR_SEND:
		return ends->from == ends->to || (there.opcode == IBV_WC_RECV && !memcmp(memory, payload, 16));
	case IBV_WR_RDMA_READ:
		return !memory[0] && !memory[15];
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		memcpy(&word, memory + 1024, 8);
		return word == (opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 7 : 5) && !memcmp(memory, memory + 512, 8);
	default:
		return true; // BIND_MW and LOCAL_INV: the tests of windows
	}
}

static void one_cell(enum ibv_qp_type type, enum ibv_wr_opcode opcode, enum cell cell)
{
	struct ends ends = opened(type);
	struct ibv_wc here = {0}, there = {0}, wc;
	char text[80];
	int error;

	snprintf(text, sizeof text, "ACC-3 XPORT-12 XPORT-13: opcode %d on service %d", opcode, type);
	error = posts(&ends, opcode);
	if (cell == YES) {
		HOLDS(text, !error);
		for (int left = error ? 0 : 1 + received(type, opcode); left > 0; left--) {
			wc = next();
			HOLDS(text, wc.status == IBV_WC_SUCCESS);
			*(wc.wr_id == 1 ? &here : &there) = wc;
		}
		HOLDS(text, here.wr_id == 1 && effect(&ends, opcode, there));
	} else if (cell == REFUSED) {
		HOLDS(text, !error && next().status == IBV_WC_REM_ACCESS_ERR);
	} else {
		HOLDS(text, error == EINVAL || error == EOPNOTSUPP || (!error && next().status == IBV_WC_LOC_QP_OP_ERR));
		HOLDS(text, !ends.memory[1024] && !ends.memory[2048] && !ends.memory[2048 + 40]);
	}
	closed(&ends);
}

static void every_cell(void)
{
	for (unsigned type = 0; type < COUNT(types); type++)
		for (unsigned row = 0; row < COUNT(matrix); row++)
			if (types[type] != IBV_QPT_RAW_PACKET || (ethernet && getenv("HCA_MANAGER")))
				one_cell(types[type], matrix[row].opcode, matrix[row].cells[type]);
	HOLDS("OP-12: no TSO, and the device says so", device.tso_caps.max_tso == 0);
}

// ---- Memory, keys, limits ------------------------------------------------------------------------------------------

static const char constant[64] = "part of the program's text";

// MEM-5, MEM-6, MEM-8 to MEM-12, MEM-17, MEM-18, MEM-20.
static void memory(void)
{
	const int write = IBV_ACCESS_LOCAL_WRITE, far = IBV_ACCESS_REMOTE_READ;
	char *heap = malloc(4096), *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *reads = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char global[64];
	char local[64];
	struct {
		const char *what;
		void *start;
		size_t length;
		int access;
		bool given;
	} cases[] = {
		{"MEM-5 heap", heap, 100, write, true}, {"MEM-5 local", local, 64, write, true},
		{"MEM-5 global", global, 64, write, true}, {"MEM-5 mmap", mapped + 1, 4000, write, true},
		{"MEM-5 shared", shared, 4096, write, true}, {"MEM-5 text", (void *)constant, 64, far, true},
		{"MEM-5 rights above those of the system", reads, 4096, write, false},
		{"MEM-6 one byte", heap, 1, write, true}, {"MEM-6 none", heap, 0, write, false},
		{"MEM-6 above max_mr_size", heap, device.orig_attr.max_mr_size + 1, write, false},
		{"MEM-8", heap, 64, IBV_ACCESS_REMOTE_WRITE, false}, {"MEM-8", heap, 64, IBV_ACCESS_REMOTE_ATOMIC, false},
		{"MEM-8 local read is implied", heap, 64, 0, true},
		{"MEM-10", heap, 64, write | IBV_ACCESS_ZERO_BASED, true},
		{"MEM-11: on demand", heap, 64, write | IBV_ACCESS_ON_DEMAND, false},
		{"MEM-11: all of the address space", NULL, SIZE_MAX, write | IBV_ACCESS_ON_DEMAND, false},
		{"MEM-18: a region of all memory is for kernels", NULL, SIZE_MAX, write, false},
		{"MEM-12", heap, 64, write | IBV_ACCESS_RELAXED_ORDERING, true},
	};

	for (unsigned at = 0; at < COUNT(cases); at++) {
		struct ibv_mr *mr = (errno = 0, ibv_reg_mr)(pd, cases[at].start, cases[at].length, cases[at].access);

		HOLDS(cases[at].what, (mr != NULL) == cases[at].given && (mr || errno));
		if (mr)
			HOLDS("V-132", !ibv_dereg_mr(mr));
	}
	HOLDS("MEM-11: the device says that it cannot", device.odp_caps.general_caps == 0
		&& !device.odp_caps.per_transport_caps.rc_odp_caps);
	HOLDS("MEM-17", device.orig_attr.max_fmr == 0 && device.orig_attr.max_map_per_fmr == 0);
	free(heap);
	munmap(shared, 4096);
	munmap(mapped, 4096);
	munmap(reads, 4096);
}

// MEM-10: an address is an offset, for who sends, who receives and who is written to; none is past the end.
static void zero_based(void)
{
	static const struct {
		uint64_t here, there;
		enum ibv_wc_status status;
	} cases[] = {
		{0, 32, IBV_WC_SUCCESS}, {65, 36, IBV_WC_SUCCESS}, {0, 37, IBV_WC_REM_ACCESS_ERR},
		{97, 0, IBV_WC_LOC_PROT_ERR}, {0, (uint64_t)-8, IBV_WC_REM_ACCESS_ERR},
	};
	char bytes[256];
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED;
	struct ibv_mr *from = ibv_reg_mr(pd, bytes + 3, 100, rights), *to = ibv_reg_mr(pd, bytes + 129, 40, rights);
	struct ibv_qp *qp = created(IBV_QPT_RC), *peer = created(IBV_QPT_RC);
	struct ibv_send_wr *bad;

	HOLDS("MEM-10", from && to);
	for (unsigned at = 0; at < COUNT(cases); at++) {
		struct ibv_sge sge = {cases[at].here, 4, from->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {cases[at].there, to->rkey}};

		anew(qp, S(RTS), peer->qp_num);
		anew(peer, S(RTS), qp->qp_num);
		for (unsigned byte = 0; byte < sizeof bytes; byte++)
			bytes[byte] = byte;
		HOLDS("MEM-10", !ibv_post_send(qp, &wr, &bad) && next().status == cases[at].status);
		for (uint64_t byte = 0; byte < 40; byte++) {
			bool written = cases[at].status == IBV_WC_SUCCESS && byte - cases[at].there < 4;
			char want = written ? 3 + cases[at].here + byte - cases[at].there : 129 + byte;
			HOLDS("MEM-10", bytes[129 + byte] == want);
		}
	}
	HOLDS("V-121, V-132", !ibv_destroy_qp(qp) && !ibv_destroy_qp(peer) && !ibv_dereg_mr(from) && !ibv_dereg_mr(to));
}

// QPS-23: a program that does not know yet that its QP has failed learns it: nothing is modified, and SQE stays.
static void unaware(void)
{
	struct ibv_qp *qp = created(IBV_QPT_UD);
	struct ibv_qp_attr attr = attributes(S(RTS), S(RTS), 0);

	into(qp, S(SQE));
	HOLDS("QPS-23", ibv_modify_qp(qp, &attr, STATE | CUR | Q_KEY) == EINVAL && asked_for(qp).qp_state == S(SQE));
	attr.cur_qp_state = S(SQE);
	HOLDS("QPS-9, QPS-12", !ibv_modify_qp(qp, &attr, STATE | CUR) && asked_for(qp).qp_state == S(RTS));
	HOLDS("V-121", !ibv_destroy_qp(qp));
}

static void keys(void)
{
	struct ibv_qp *qp = created(IBV_QPT_RC), *other = created(IBV_QPT_RC);
	struct ibv_qp_attr attr = attributes(S(RESET), S(INIT), 0), first;
	__be16 pkey;
	int found = 0;

	for (int index = 0; index < port.pkey_tbl_len; index++) {
		HOLDS("KEY-22", !ibv_query_pkey(context, 1, index, &pkey));
		if (be16toh(pkey) & 0x7fff) { // KEY-8: its low 15 bits say the partition, KEY-9: none is an empty slot
			int at = ibv_get_pkey_index(context, 1, pkey);
			HOLDS("KEY-22: and back", at >= 0 && at <= index);
			found++;
		}
	}
	HOLDS("KEY-10", found >= 1 && ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey) != 0);
	attr.pkey_index = port.pkey_tbl_len;
	HOLDS("KEY-12: an index", ibv_modify_qp(qp, &attr, STATE | PKEY | PORT | ACCESS) == EINVAL);
	HOLDS("KEY-25", device.orig_attr.device_cap_flags & IBV_DEVICE_BAD_QKEY_CNTR);
	HOLDS("ADDR-9", qp->qp_num > 1 && qp->qp_num < 0xffffff && qp->qp_num != other->qp_num);
	HOLDS("QPS-1", S(RESET) == 0 && asked_for(qp).qp_state == S(RESET));
	HOLDS("QPS-T", !steps(qp, S(RTS), other->qp_num));
	first = asked_for(qp);
	struct ibv_qp_attr second = asked_for(qp);
	HOLDS("QPS-24: nothing changes without a modify", !memcmp(&first, &second, sizeof first));
	HOLDS("V-121", !ibv_destroy_qp(qp) && !ibv_destroy_qp(other));
}

// APM-3, APM-4: a path is loaded, and told; what there is no way to is refused.
static void migration(void)
{
	if (!(device.orig_attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		return;
	static const enum ibv_qp_type kinds[] = {IBV_QPT_RC, IBV_QPT_UC};
	for (unsigned at = 0; at < COUNT(kinds); at++) {
		struct ibv_qp *qp = created(kinds[at]);
		into(qp, S(RTS));
		struct ibv_qp_attr attr = attributes(S(RTS), S(RTS), qp->qp_num), now;
		attr.path_mig_state = IBV_MIG_REARM;
		HOLDS("APM-4: no path is loaded", ibv_modify_qp(qp, &attr, MIG) == EINVAL);
		HOLDS("APM-4", !ibv_modify_qp(qp, &attr, ALT | MIG));
		now = asked_for(qp);
		HOLDS("APM-3", now.path_mig_state == IBV_MIG_REARM);
		HOLDS("APM-4", now.alt_port_num == 1 && now.alt_timeout == 15 && now.alt_pkey_index == attr.alt_pkey_index
			&& !memcmp(&now.alt_ah_attr.grh.dgid, &gid, sizeof gid));
		attr.path_mig_state = IBV_MIG_ARMED;
		HOLDS("APM-3: it comes of itself", ibv_modify_qp(qp, &attr, MIG) == EINVAL);
		attr.path_mig_state = IBV_MIG_MIGRATED;
		HOLDS("APM-3", !ibv_modify_qp(qp, &attr, MIG) && asked_for(qp).path_mig_state == IBV_MIG_MIGRATED);
		HOLDS("V-121", !ibv_destroy_qp(qp));
	}
}

static void limits(void)
{
	struct ibv_device_attr *attr = &device.orig_attr;

	HOLDS("SPEC-1 XPORT-3 XPORT-14: no reliable datagrams", !attr->max_ee && !attr->max_rdd && !attr->max_ee_rd_atom
		&& !attr->max_ee_init_rd_atom);
	HOLDS("SPEC-2 XPORT-5 WIRE-19: no raw IPv6, no raw EtherType", !attr->max_raw_ipv6_qp && !attr->max_raw_ethy_qp);
	HOLDS("SPEC-2 MC-19", !(attr->device_cap_flags & IBV_DEVICE_RAW_MULTI));
	HOLDS("SPEC-10: no matching of tags", !device.tm_caps.max_num_tags && !device.tm_caps.flags);
	HOLDS("REL-14", attr->device_cap_flags & IBV_DEVICE_RC_RNR_NAK_GEN);
	HOLDS("REL-15", attr->local_ca_ack_delay > 0 && attr->local_ca_ack_delay < 32);
	HOLDS("APM-2: device and port say the same", !(attr->device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG)
		== !(port.port_cap_flags & IBV_PORT_AUTO_MIGR_SUP));
	HOLDS("XPORT-11", IBV_QPT_RC == 2 && IBV_QPT_UC == 3 && IBV_QPT_UD == 4 && IBV_QPT_RAW_PACKET == 8
		&& IBV_QPT_XRC_SEND == 9 && IBV_QPT_XRC_RECV == 10);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}};
	// RD and both raw datagrams have no number that one could ask for.
	static const int absent[] = {5, 6, 7, IBV_QPT_DRIVER, 0x100};
	if (!getenv("HCA_MANAGER"))
		HOLDS("XPORT-8: QP0 is the manager's", (errno = 0, ibv_create_qp(pd, &init) == NULL) && errno);
	for (unsigned at = 0; at < COUNT(absent); at++) {
		init.qp_type = absent[at];
		HOLDS("XPORT-9 XPORT-11: none of another type", (errno = 0, ibv_create_qp(pd, &init) == NULL) && errno);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!context || ibv_query_device_ex(context, NULL, &device)) {
		perror("no device");
		return 2;
	}
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	HOLDS("V-35", pd && cq && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 1, &gid));
	ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	struct ibv_ah_attr address = attributes(0, 0, 0).ah_attr;
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT};
	ah = ibv_create_ah(pd, &address);
	xrcd = ibv_open_xrcd(context, &domain);
	HOLDS("V-100, V-145", ah && xrcd);
	tables();
	every_cell();
	memory();
	zero_based();
	unaware();
	keys();
	limits();
	migration();
	HOLDS("V-132", !ibv_close_xrcd(xrcd) && !ibv_destroy_ah(ah) && !ibv_destroy_cq(cq)
		&& !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	ibv_free_device_list(list);
	printf("%d asked, %d do not hold\n", asked, wrong);
	return wrong != 0;
}
