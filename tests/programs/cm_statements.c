// What librdmacm's calls promise, statement by statement (CM-*), by ids of one process on one card that connect with
// each other. Prints a line for each statement that does not hold; ends with 0 if all do.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm_sides.h"

#define CONSUMER 28 // reason of a rejection
#define OPTIONS 35
#define NO_SERVICE 8

static uint8_t bytes[256], zeros[256];

static void names(void)
{
	static const char *const name[] = {"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST",
		"CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED",
		"DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT"};
	char whole[64];

	for (int i = 0; i < 16; i++) {
		snprintf(whole, sizeof whole, "RDMA_CM_EVENT_%s", name[i]);
		HOLDS("CM-59, ACC-10: events 0 to 15", !strcmp(rdma_event_str(i), whole));
	}
	HOLDS("CM-59", !strcmp(rdma_event_str(16), "UNKNOWN EVENT"));
	HOLDS("CM-12", RDMA_PS_IPOIB == 2 && RDMA_PS_TCP == 0x106 && RDMA_PS_UDP == 0x111 && RDMA_PS_IB == 0x13f);
	HOLDS("CM-61, KEY-26", RDMA_UDP_QKEY == 0x01234567);
	HOLDS("CM-30, ADDR-14", AF_INET == 2 && AF_UNSPEC == 0 && AF_IB == 27);
}

static void devices(void)
{
	int count = -1;
	struct ibv_context **list = rdma_get_devices(&count), **again = rdma_get_devices(NULL);

	HOLDS("CM-49", list && count == 1 && list[0] && !list[1]);
	HOLDS("CM-49 open contexts, the same for all", again && again[0] == list[0]);
	struct ibv_device_attr attr;
	HOLDS("CM-49 they are open", ibv_query_device(list[0], &attr) == 0);
	rdma_free_devices(list);
	rdma_free_devices(again);
}

static void channels(void)
{
	struct side side = fresh(RDMA_PS_TCP, NULL);
	struct pollfd polled = {.fd = side.channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	fcntl(side.channel->fd, F_SETFL, fcntl(side.channel->fd, F_GETFL) | O_NONBLOCK);
	FAILS("CM-57 O_NONBLOCK", EAGAIN, rdma_get_cm_event(side.channel, &event));
	HOLDS("CM-10 it can be polled", poll(&polled, 1, 0) == 0);
	HOLDS("CM-2, CM-4: 0 is \"started\"", rdma_resolve_addr(side.id, NULL, address("10.0.0.200", 9), 100) == 0);
	HOLDS("CM-10 it can be polled", poll(&polled, 1, 5000) == 1 && polled.revents == POLLIN);
	event = next(side.channel, RDMA_CM_EVENT_ADDR_ERROR);
	HOLDS("CM-57 the status is a negative errno", event->status < 0 && event->id == side.id && !event->listen_id);
	rdma_ack_cm_event(event);
	end(side);
}

static void qp_of_id(struct side side)
{
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	struct ibv_qp_attr found;
	struct ibv_sge sge = {0};
	struct ibv_recv_wr wr = {.sg_list = &sge}, *bad;
	int mask = 0;

	HOLDS("CM-20", rdma_create_qp(side.id, NULL, &attr) == 0 && side.id->qp);
	HOLDS("CM-20 the default PD", side.id->pd && side.id->qp->pd == side.id->pd);
	HOLDS("CM-20 the manager makes CQs and channels", side.id->send_cq && side.id->recv_cq && side.id->send_cq_channel
		&& side.id->recv_cq_channel && side.id->qp->send_cq == side.id->send_cq);
	HOLDS("CM-20 actual capabilities", attr.cap.max_send_wr >= 4 && attr.cap.max_inline_data >= 16);
	HOLDS("CM-20 receives can be posted", state_of(side.id->qp) == IBV_QPS_INIT && !ibv_post_recv(side.id->qp, &wr, &bad));
	attr = wanted(IBV_QPT_RC);
	FAILS("CM-20 one QP for each id", EINVAL, rdma_create_qp(side.id, NULL, &attr));
	found.qp_state = IBV_QPS_INIT;
	HOLDS("CM-23", rdma_init_qp_attr(side.id, &found, &mask) == 0 && found.port_num == side.id->port_num
		&& mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	rdma_destroy_qp(side.id);
	HOLDS("CM-22 what was made goes with it", !side.id->qp && !side.id->send_cq && !side.id->recv_cq_channel);
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .cap = wanted(IBV_QPT_RC).cap, .sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = side.id->pd};
	HOLDS("CM-21", rdma_create_qp_ex(side.id, &ex) == 0 && side.id->qp && state_of(side.id->qp) == IBV_QPS_INIT);
}

static void path(struct side side)
{
	struct ibv_sa_path_rec *rec = side.id->route.path_rec;
	union ibv_gid gid;

	HOLDS("CM-13", side.id->route.num_paths == 1 && rec);
	HOLDS("CM-13 GIDs of both ends", !memcmp(&rec->sgid, &rec->dgid, sizeof gid));
	HOLDS("CM-13 P_Key, in order of the network", rec->pkey == htons(0xffff));
	HOLDS("CM-13 reversible, MTU exactly", rec->reversible && rec->numb_path == 1 && rec->mtu_selector == 2
		&& rec->mtu >= 1
		&& rec->mtu <= 5);
	HOLDS("CM-16 TOS", rec->traffic_class == 0x20);
}

// The passive side of a request: what it was told, and a QP on the new id.
static struct rdma_cm_id *asked_by(struct side at, struct side by, const struct rdma_conn_param *param, int size)
{
	struct rdma_cm_event *event = next(at.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param *got = &event->param.conn;
	struct rdma_cm_id *id = event->id;

	HOLDS("CM-57 a new id, and the listener", id != at.id && event->listen_id == at.id && id->context == at.id->context);
	HOLDS("CM-60 the swapped view", got->responder_resources == param->initiator_depth
		&& got->initiator_depth == param->responder_resources);
	HOLDS("CM-60 retries", got->retry_count == param->retry_count && got->rnr_retry_count == param->rnr_retry_count);
	HOLDS("CM-35 number of the QP", !by.id->qp || got->qp_num == by.id->qp->qp_num);
	HOLDS("CM-60 private data, then zeros", got->private_data_len >= size && !memcmp(got->private_data, bytes, size)
		&& !memcmp((const char *)got->private_data + size, zeros, got->private_data_len - size));
	HOLDS("CM-48 addresses of both ends", rdma_get_src_port(id) == rdma_get_dst_port(by.id)
		&& rdma_get_dst_port(id) == rdma_get_src_port(by.id)
		&& ((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr == inet_addr(SELF)
		&& ((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr == inet_addr(SELF));
	HOLDS("CM-58", rdma_ack_cm_event(event) == 0);
	return id;
}

static struct rdma_conn_param private(int size)
{
	return (struct rdma_conn_param){.private_data = bytes, .private_data_len = size, .responder_resources = 1,
		.initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6};
}

static void rejected(void)
{
	int port;
	struct side server = listener(RDMA_PS_TCP, &port), client = fresh(RDMA_PS_TCP, NULL);
	struct rdma_conn_param param = private(56), large = private(57);

	resolve(client, port);
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	HOLDS("CM-20", rdma_create_qp(client.id, NULL, &attr) == 0);
	FAILS("CM-37 56 bytes of a connection request", EINVAL, rdma_connect(client.id, &large));
	HOLDS("CM-33, CM-37", rdma_connect(client.id, &param) == 0);
	struct rdma_cm_id *id = asked_by(server, client, &param, 56);
	FAILS("CM-37 148 bytes of a rejection", EINVAL, rdma_reject(id, bytes, 149));
	HOLDS("CM-41", rdma_reject(id, bytes, 148) == 0);
	struct rdma_cm_event *event = next(client.channel, RDMA_CM_EVENT_REJECTED);
	HOLDS("CM-41, MGMT: the consumer's own reason", event->status == CONSUMER);
	HOLDS("CM-41 private data", event->param.conn.private_data_len >= 148
		&& !memcmp(event->param.conn.private_data, bytes, 148));
	rdma_ack_cm_event(event);
	HOLDS("CM-14", rdma_destroy_id(id) == 0);
	end(client);
	client = fresh(RDMA_PS_TCP, NULL);
	resolve(client, port);
	attr = wanted(IBV_QPT_RC);
	rdma_create_qp(client.id, NULL, &attr);
	HOLDS("CM-33", rdma_connect(client.id, &param) == 0);
	id = asked_by(server, client, &param, 56);
	HOLDS("CM-41", rdma_reject_ece(id, bytes, 5) == 0);
	event = next(client.channel, RDMA_CM_EVENT_REJECTED);
	HOLDS("CM-41 for its options", event->status == OPTIONS && !memcmp(event->param.conn.private_data, bytes, 5));
	rdma_ack_cm_event(event);
	HOLDS("CM-14", rdma_destroy_id(id) == 0);
	end(client);
	end(server);
	client = fresh(RDMA_PS_TCP, NULL);
	resolve(client, port);
	attr = wanted(IBV_QPT_RC);
	rdma_create_qp(client.id, NULL, &attr);
	HOLDS("CM-33", rdma_connect(client.id, &param) == 0);
	event = next(client.channel, RDMA_CM_EVENT_REJECTED);
	HOLDS("nobody serves it", event->status == NO_SERVICE);
	rdma_ack_cm_event(event);
	end(client);
}

static void wrappers(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	char *memory = aligned_alloc(4096, 8192), *target = memory + 4096;
	struct ibv_mr *one = rdma_reg_msgs(from, memory, 4096), *two = rdma_reg_msgs(to, target, 4096);
	struct ibv_mr *writable = rdma_reg_write(to, target, 4096), *readable = rdma_reg_read(to, target, 4096);
	struct ibv_sge list[2];
	struct ibv_wc wc;

	HOLDS("CM-66", one && two && writable && readable && one->pd == from->pd);
	list[0] = (struct ibv_sge){(uintptr_t)target, 3, two->lkey};
	list[1] = (struct ibv_sge){(uintptr_t)target + 3, 100, two->lkey};
	strcpy(memory, "statements");
	HOLDS("CM-65, CM-67", rdma_post_recvv(to, (void *)7, list, 2) == 0);
	HOLDS("CM-65, CM-67", rdma_post_send(from, (void *)8, memory, 11, one, 0) == 0);
	HOLDS("CM-68", rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	HOLDS("CM-67 the context is the wr_id", wc.wr_id == 8);
	HOLDS("CM-68", rdma_get_recv_comp(to, &wc) == 1 && wc.wr_id == 7 && wc.byte_len == 11 && !strcmp(target, memory));
	HOLDS("CM-67 memory of inline sends needs no key", rdma_post_recv(to, NULL, target, 64, two) == 0
		&& rdma_post_send(from, NULL, "inline", 7, NULL, IBV_SEND_INLINE) == 0);
	HOLDS("CM-68", rdma_get_send_comp(from, &wc) == 1 && rdma_get_recv_comp(to, &wc) == 1 && !strcmp(target, "inline"));
	HOLDS("CM-66 a target of writing", rdma_post_write(from, NULL, memory, 11, one, 0, (uintptr_t)target,
		writable->rkey) == 0
		&& rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(target, "statements"));
	HOLDS("CM-66 a target of reading", rdma_post_read(from, NULL, memory + 100, 11, one, 0, (uintptr_t)target,
		readable->rkey) == 0 && rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS
		&& !strcmp(memory + 100, "statements"));
	list[0] = (struct ibv_sge){(uintptr_t)memory, 5, one->lkey};
	list[1] = (struct ibv_sge){(uintptr_t)memory + 5, 6, one->lkey};
	memset(target, 0, 64);
	HOLDS("CM-65 lists", rdma_post_writev(from, NULL, list, 2, 0, (uintptr_t)target, writable->rkey) == 0
		&& rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(target, "statements"));
	HOLDS("CM-65", !rdma_dereg_mr(one) && !rdma_dereg_mr(two) && !rdma_dereg_mr(writable) && !rdma_dereg_mr(readable));
	free(memory);
}

static void *destroys(void *id)
{
	return (void *)(intptr_t)rdma_destroy_id(id);
}

static void connected(void)
{
	int port, mask = 0;
	struct side server = listener(RDMA_PS_TCP, &port), client = fresh(RDMA_PS_TCP, NULL);
	struct rdma_conn_param param = private(56), answer = private(196), large = private(197);
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	struct ibv_qp_attr found = {0};
	struct ibv_qp_init_attr init;
	uint8_t tos = 0x20, timeout = 17, other = 32;
	int yes = 1;

	HOLDS("CM-16", rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1) == 0
		&& rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1) == 0
		&& rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes) == 0
		&& rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes) == 0);
	FAILS("CM-16 five bits", EINVAL, rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &other, 1));
	FAILS("CM-16 its size", EINVAL, rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, sizeof yes));
	resolve(client, port);
	path(client);
	qp_of_id(client);
	HOLDS("CM-5", rdma_connect(client.id, &param) == 0);
	struct rdma_cm_id *id = asked_by(server, client, &param, 56);
	HOLDS("CM-6", rdma_create_qp(id, NULL, &attr) == 0);
	FAILS("CM-37 196 bytes of an acceptance", EINVAL, rdma_accept(id, &large));
	answer.responder_resources = 2;
	answer.initiator_depth = 200; // more than was asked for
	HOLDS("CM-34", rdma_accept(id, &answer) == 0);
	struct rdma_cm_event *event = next(client.channel, RDMA_CM_EVENT_ESTABLISHED);
	HOLDS("CM-60 private data", event->param.conn.private_data_len >= 196
		&& !memcmp(event->param.conn.private_data, bytes, 196));
	HOLDS("CM-36 depth is no more than was asked for", event->param.conn.responder_resources == 1
		&& event->param.conn.initiator_depth == 2);
	rdma_ack_cm_event(event);
	take(server.channel, RDMA_CM_EVENT_ESTABLISHED);
	HOLDS("CM-20 the manager moves the QPs", state_of(client.id->qp) == IBV_QPS_RTS && state_of(id->qp) == IBV_QPS_RTS);
	HOLDS("CM-16, CM-38", ibv_query_qp(client.id->qp, &found, IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER, &init) == 0
		&& found.timeout == 17 && found.min_rnr_timer == 0 && found.retry_cnt == 5 && found.max_rd_atomic == 2);
	FAILS("CM-56", EISCONN, rdma_notify(client.id, IBV_EVENT_COMM_EST));
	found.qp_state = IBV_QPS_RTS;
	HOLDS("CM-23", rdma_init_qp_attr(client.id, &found, &mask) == 0 && (mask & IBV_QP_SQ_PSN) && found.timeout == 17);
	wrappers(client.id, id);

	// CM-15: what has been told goes along.
	struct rdma_event_channel *new = rdma_create_event_channel();
	struct ibv_mr *mr = rdma_reg_msgs(id, bytes, sizeof bytes);
	struct ibv_wc wc;
	HOLDS("CM-65", rdma_post_recv(id, (void *)99, bytes, 10, mr) == 0);
	HOLDS("CM-42", rdma_disconnect(client.id) == 0);
	take(client.channel, RDMA_CM_EVENT_DISCONNECTED);
	HOLDS("CM-15", rdma_migrate_id(id, new) == 0 && id->channel == new);
	take(new, RDMA_CM_EVENT_DISCONNECTED);
	HOLDS("CM-42 either end, once", rdma_disconnect(id) == 0);
	HOLDS("CM-42 QPs fail", state_of(client.id->qp) == IBV_QPS_ERR && state_of(id->qp) == IBV_QPS_ERR);
	HOLDS("CM-42 what is posted is flushed", rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR
		&& wc.wr_id == 99);
	rdma_dereg_mr(mr);
	take(client.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	event = next(new, RDMA_CM_EVENT_TIMEWAIT_EXIT); // CM-70
	// CM-14: the id stays until the event is acknowledged.
	pthread_t thread;
	struct timespec soon;
	void *result = (void *)9;
	rdma_destroy_qp(id);
	pthread_create(&thread, NULL, destroys, id);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_sec++;
		soon.tv_nsec -= 1000000000;
	}
	HOLDS("CM-14 it waits", pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
	rdma_ack_cm_event(event);
	HOLDS("CM-14", pthread_join(thread, &result) == 0 && result == NULL);
	rdma_destroy_event_channel(new);
	end(client);
	end(server);
}

// CM-3: the manager has the communication alone, the program its QPs.
static void own_qps(void)
{
	int port;
	struct side server = listener(RDMA_PS_TCP, &port), client = fresh(RDMA_PS_TCP, NULL);
	struct rdma_conn_param param = private(10);

	resolve(client, port);
	param.qp_num = 0x123;
	HOLDS("CM-3", rdma_connect(client.id, &param) == 0);
	struct rdma_cm_event *event = next(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	HOLDS("CM-35 the program's number", event->param.conn.qp_num == 0x123);
	rdma_ack_cm_event(event);
	param.qp_num = 0x456;
	HOLDS("CM-3", rdma_accept(id, &param) == 0);
	event = next(client.channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	HOLDS("event 5", event->param.conn.qp_num == 0x456 && !memcmp(event->param.conn.private_data, bytes, 10));
	rdma_ack_cm_event(event);
	HOLDS("CM-39", rdma_establish(client.id) == 0);
	take(server.channel, RDMA_CM_EVENT_ESTABLISHED);
	HOLDS("CM-42 the passive end may be first", rdma_disconnect(id) == 0);
	take(server.channel, RDMA_CM_EVENT_DISCONNECTED);
	take(client.channel, RDMA_CM_EVENT_DISCONNECTED);
	HOLDS("CM-14", rdma_destroy_id(id) == 0);
	end(client);
	end(server);
}

static struct rdma_addrinfo *info_of(int flags, int ps, const char *port)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = ps}, *found = NULL;

	HOLDS("CM-28", rdma_getaddrinfo(SELF, port, &hints, &found) == 0 && found);
	HOLDS("CM-28 what it is for", found->ai_port_space == ps && found->ai_family == AF_INET
		&& found->ai_qp_type == (ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC));
	if (flags & RAI_PASSIVE)
		HOLDS("CM-28", found->ai_src_len == sizeof(struct sockaddr_in) && found->ai_dst_len == 0);
	else
		HOLDS("CM-28", found->ai_dst_len == sizeof(struct sockaddr_in));
	HOLDS("CM-28", found->ai_connect_len == 0 && found->ai_next == NULL);
	return found;
}

static void *connects(void *port)
{
	struct rdma_addrinfo *info = info_of(RAI_NUMERICHOST, RDMA_PS_TCP, port);
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	struct rdma_conn_param param = private(20);
	struct rdma_cm_id *id = NULL;

	HOLDS("CM-45 the active side may connect at once", rdma_create_ep(&id, info, NULL, &attr) == 0 && id->qp);
	HOLDS("CM-45 it is synchronous", id->channel != NULL);
	HOLDS("CM-2 connect returns when it is established", rdma_connect(id, &param) == 0 && id->event
		&& id->event->event == RDMA_CM_EVENT_ESTABLISHED && state_of(id->qp) == IBV_QPS_RTS);
	HOLDS("CM-2", rdma_disconnect(id) == 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
	return NULL;
}

static void synchronous(void)
{
	struct rdma_addrinfo *info = info_of(RAI_PASSIVE | RAI_NUMERICHOST, RDMA_PS_TCP, "7999");
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	struct rdma_cm_id *listen = NULL, *id = NULL;
	pthread_t thread;

	HOLDS("CM-45 a passive one", rdma_create_ep(&listen, info, NULL, &attr) == 0 && listen->qp == NULL);
	HOLDS("CM-45 no bind_addr before", rdma_listen(listen, 0) == 0);
	pthread_create(&thread, NULL, connects, "7999");
	HOLDS("CM-40", rdma_get_request(listen, &id) == 0 && id && id->qp);
	HOLDS("CM-40 its event", id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST
		&& !memcmp(id->event->param.conn.private_data, bytes, 20));
	HOLDS("CM-34 NULL: what was asked for", rdma_accept(id, NULL) == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	pthread_join(thread, NULL);
	HOLDS("CM-2", rdma_disconnect(id) == 0);
	rdma_destroy_ep(id);
	struct side async = fresh(RDMA_PS_TCP, NULL);
	FAILS("CM-40 synchronous listeners only", EINVAL, rdma_get_request(async.id, &id));
	end(async);
	HOLDS("CM-46", (rdma_destroy_ep(listen), 1));
	rdma_freeaddrinfo(info);
}

static void datagrams(void)
{
	int port;
	struct side server = listener(RDMA_PS_UDP, &port), client = fresh(RDMA_PS_UDP, NULL);
	struct rdma_conn_param param = private(180), answer = private(136), large = private(181);
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_UD);

	resolve(client, port);
	HOLDS("CM-20 a QP of datagrams can send at once", rdma_create_qp(client.id, NULL, &attr) == 0
		&& state_of(client.id->qp) == IBV_QPS_RTS);
	FAILS("CM-37 180 bytes of a lookup", EINVAL, rdma_connect(client.id, &large));
	HOLDS("CM-33 a lookup", rdma_connect(client.id, &param) == 0);
	struct rdma_cm_event *event = next(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	HOLDS("CM-61 private data", event->param.ud.private_data_len >= 180
		&& !memcmp(event->param.ud.private_data, bytes, 180));
	rdma_ack_cm_event(event);
	attr = wanted(IBV_QPT_UD);
	HOLDS("CM-20", rdma_create_qp(id, NULL, &attr) == 0);
	large.private_data_len = 137;
	FAILS("CM-37 136 bytes of an answer", EINVAL, rdma_accept(id, &large));
	HOLDS("CM-34", rdma_accept(id, &answer) == 0);
	event = next(client.channel, RDMA_CM_EVENT_ESTABLISHED);
	HOLDS("CM-61", event->param.ud.qp_num == id->qp->qp_num && event->param.ud.qkey == RDMA_UDP_QKEY
		&& event->param.ud.private_data_len >= 136 && !memcmp(event->param.ud.private_data, bytes, 136));

	struct ibv_ah *ah = ibv_create_ah(client.id->pd, &event->param.ud.ah_attr);
	char *memory = calloc(1, 128);
	struct ibv_mr *mr = rdma_reg_msgs(client.id, memory, 128);
	struct ibv_wc wc;
	strcpy(memory, "datagram");
	HOLDS("CM-61 its address makes an AH", ah != NULL);
	HOLDS("CM-65", rdma_post_recv(id, NULL, memory + 20, 100, mr) == 0
		&& rdma_post_ud_send(client.id, NULL, memory, 9, mr, 0, ah, event->param.ud.qp_num) == 0
		&& rdma_get_send_comp(client.id, &wc) == 1 && rdma_get_recv_comp(id, &wc) == 1 && wc.byte_len == 49
		&& !strcmp(memory + 60, "datagram"));
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
	free(memory);
	rdma_ack_cm_event(event);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	end(client);

	client = fresh(RDMA_PS_UDP, NULL);
	resolve(client, port);
	attr = wanted(IBV_QPT_UD);
	rdma_create_qp(client.id, NULL, &attr);
	HOLDS("CM-33", rdma_connect(client.id, &param) == 0);
	event = next(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	rdma_ack_cm_event(event);
	HOLDS("CM-41", rdma_reject(id, bytes, 10) == 0);
	event = next(client.channel, RDMA_CM_EVENT_UNREACHABLE);
	HOLDS("event 7: status of the answer", event->status == 2);
	rdma_ack_cm_event(event);
	rdma_destroy_id(id);
	end(client);
	end(server);
}

static void multicast(void)
{
	struct side side = fresh(RDMA_PS_UDP, NULL);
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_UD);
	struct sockaddr *group = address("239.4.5.6", 0);
	int mine;

	FAILS("CM-52 the id is bound before", EINVAL, rdma_join_multicast(side.id, group, &mine));
	HOLDS("CM-27", rdma_bind_addr(side.id, address(SELF, 0)) == 0);
	HOLDS("CM-20", rdma_create_qp(side.id, NULL, &attr) == 0);
	HOLDS("CM-52", rdma_join_multicast(side.id, group, &mine) == 0);
	struct rdma_cm_event *event = next(side.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	HOLDS("CM-52 the program's context", event->param.ud.private_data == &mine);
	HOLDS("CM-61 the number of all members", event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == RDMA_UDP_QKEY);

	struct ibv_ah *ah = ibv_create_ah(side.id->pd, &event->param.ud.ah_attr);
	char *memory = calloc(1, 128);
	struct ibv_mr *mr = rdma_reg_msgs(side.id, memory, 128);
	struct ibv_wc wc;
	strcpy(memory, "group");
	HOLDS("CM-52 its QP is attached", ah && rdma_post_recv(side.id, NULL, memory + 20, 100, mr) == 0
		&& rdma_post_ud_send(side.id, NULL, memory, 6, mr, 0, ah, 0xffffff) == 0
		&& rdma_get_recv_comp(side.id, &wc) == 1 && !strcmp(memory + 60, "group"));
	rdma_ack_cm_event(event);
	HOLDS("CM-54", rdma_leave_multicast(side.id, group) == 0);
	FAILS("CM-54 once", EADDRNOTAVAIL, rdma_leave_multicast(side.id, group));
	struct rdma_cm_join_mc_attr_ex join = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, .addr = group};
	HOLDS("CM-53", rdma_join_multicast_ex(side.id, &join, NULL) == 0);
	take(side.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	join.join_flags = 2;
	FAILS("CM-53 two flags", EINVAL, rdma_join_multicast_ex(side.id, &join, NULL));
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
	free(memory);
	end(side); // CM-14: it leaves all groups
}

int main(void)
{
	for (int i = 0; i < 256; i++)
		bytes[i] = i + 1;
	names();
	devices();
	channels();
	rejected();
	connected();
	own_qps();
	synchronous();
	datagrams();
	multicast();
	printf("%d asked, %d do not hold\n", asked, wrong);
	return wrong != 0;
}
